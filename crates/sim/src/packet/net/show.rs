//! What a run shows besides its results: queues and windows over time, the packets of a port.

use super::*;

impl Net {
    /// Records what the trace asks for.
    pub(super) fn look(&mut self) {
        let at = Instant::from_ps(self.now);
        for &link in &self.trace.queues {
            let bytes = Bytes(self.ports.backlog(link.0, self.now));
            self.traced.queues.push(QueueSample { at, link, bytes, drops: u64::from(self.ports.drops(link.0)) });
        }
        for &flow in &self.trace.windows {
            let first = flow.0 * self.subflows;
            for (subflow, end) in (first..first + self.subflows).enumerate() {
                let Some(Tx { tcp, .. }) = self.tx.get(end as usize).filter(|t| t.tcp.is_under_way()) else { continue };
                let (segments, srtt_ps) = (tcp.window(), tcp.srtt());
                self.traced.windows.push(WindowSample { at, flow, subflow: subflow as u32, segments, srtt_ps });
            }
        }
        self.wheel.push(self.now + self.trace.every.as_ps(), self.timers + LOOK, 0);
    }

    /// A packet leaves the port that is captured.
    #[cold]
    pub(super) fn capture(&mut self, item: u32, link: u32) {
        let packet = self.packets[item];
        let (flow, subflow) = (packet.flow / self.subflows, packet.flow % self.subflows);
        let (src, dst, bytes) = self.shown[flow as usize];
        let key = FlowKey::of_flow(flow, src, dst).subflow(subflow);
        let shown = Shown { key, mss: self.sizes.mss, bytes: if self.subflows > 1 { u64::MAX } else { bytes } };
        if let Some(capture) = &mut self.capture {
            capture.packet(Instant::from_ps(self.ports.free_at(link)), &packet, &shown);
        }
    }

    /// The capture, at the end.
    pub fn take_traced(&mut self) -> Traced {
        let pcap = self.capture.take().map(|c| c.bytes).unwrap_or_default();
        Traced { pcap, ..std::mem::take(&mut self.traced) }
    }
}
