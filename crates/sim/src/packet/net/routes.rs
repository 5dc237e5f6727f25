//! Which route an end's packets take: the one that it was given, another one after a pause, or one drawn among several.

use super::*;

impl Net {
    /// An end sends by another route from now on.
    pub fn move_now(&mut self, end: u32, route: Route) {
        let tx = &mut self.tx[end as usize];
        tx.route = route;
        if std::mem::take(&mut tx.moves) {
            self.moves.remove(&end);
            self.spreads.get_mut(end as usize).map(|of_end| of_end[0].take());
        }
    }

    /// An end answers by another route from now on.
    pub fn move_back(&mut self, end: u32, route: Route) {
        self.rx[end as usize].route = route;
        self.spreads.get_mut(end as usize).map(|of_end| of_end[1].take());
    }

    /// The packets of a flow, or its acknowledgements (`back`), choose among paths from now on.
    pub fn spread(&mut self, fabric: &Fabric, flow: u32, back: bool, spread: &routing::Spread) {
        let routes = spread.paths.iter().map(|(path, _)| self.paths.intern(fabric, path)).collect();
        if self.spreads.len() <= flow as usize {
            self.spreads.resize(flow as usize + 1, [const { None }; 2]);
        }
        self.spreads[flow as usize][usize::from(back)] = Some(Spread::new(routes, spread));
        self.special = true;
        self.tx[flow as usize].moves |= !back;
    }

    /// An end sends by another route as soon as it has sent nothing for `gap`.
    pub fn move_at_gap(&mut self, end: u32, route: Route, gap: u64) {
        self.tx[end as usize].moves = true;
        self.moves.insert(end, Move { route, gap, sent: self.now });
    }

    /// The route of an end's next packet.
    #[cold]
    pub(super) fn choose_route(&mut self, end: u32) {
        if self.spreads.is_empty() {
            self.move_if_silent(end);
        } else if let Some(drawn) = self.draw(end, false, self.tx[end as usize].route) {
            self.tx[end as usize].route = drawn;
        }
    }

    /// The route of an end's next acknowledgement.
    #[inline]
    pub(super) fn choose_route_back(&mut self, end: u32) {
        if let Some(drawn) = self.draw(end, true, self.rx[end as usize].route) {
            self.rx[end as usize].route = drawn;
        }
    }

    /// What an end draws for the packet that it sends (`back`: answers) when its NIC is free, if it draws.
    #[inline]
    fn draw(&mut self, end: u32, back: bool, route: Route) -> Option<Route> {
        let spread = self.spreads.get_mut(end as usize)?[usize::from(back)].as_mut()?;
        let at = self.paths.nic(route).map_or(self.now, |nic| self.now.max(self.ports.free_at(nic)));
        spread.draw(at)
    }

    fn move_if_silent(&mut self, end: u32) {
        let Some(change) = self.moves.get_mut(&end) else { return };
        if self.now - change.sent >= change.gap {
            let route = change.route;
            self.move_now(end, route);
        } else {
            change.sent = self.now;
        }
    }
}
