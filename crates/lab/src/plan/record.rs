//! Routes in a lab's record: consecutive ones with the same target as one entry. The 720 switches of a fat-tree with k = 24 have
//! some 700,000 routes, of which those to all ToRs of a pod have the same next hops.
//!
//! ```text
//!   [{"to": ["10.1.1.0/24", "10.1.2.0/24"], "target": {"via": [..]}}, ..]
//! ```

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Net, Route, RouteTarget};

/// Several routes.
#[derive(Serialize)]
struct Entry<'a> {
    to: Vec<Net>,
    target: &'a RouteTarget,
}

/// One route, as earlier versions wrote it, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Read {
    Several { to: Vec<Net>, target: RouteTarget },
    One(Route),
}

pub(super) fn serialize<S: Serializer>(routes: &[Route], serializer: S) -> Result<S::Ok, S::Error> {
    let entries = routes.chunk_by(|a, b| a.target == b.target);
    serializer.collect_seq(entries.map(|same| Entry { to: same.iter().map(|r| r.to).collect(), target: &same[0].target }))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Route>, D::Error> {
    let mut routes = Vec::new();
    for read in Vec::<Read>::deserialize(deserializer)? {
        match read {
            Read::One(route) => routes.push(route),
            Read::Several { to, target } => routes.extend(to.into_iter().map(|to| Route { to, target: target.clone() })),
        }
    }
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Hop;

    #[derive(Serialize, Deserialize)]
    struct Record(#[serde(with = "super")] Vec<Route>);

    fn route(to: [u8; 4], port: usize) -> Route {
        Route { to: Net::host(to.into()), target: RouteTarget::Via(vec![Hop { gateway: [10, 0, 0, 1].into(), port }]) }
    }

    #[test]
    fn routes_with_the_same_target_are_one_entry() {
        let routes = vec![route([10, 1, 1, 1], 0), route([10, 1, 1, 2], 0), route([10, 1, 1, 3], 1), route([10, 1, 1, 4], 0)];
        let text = serde_json::to_string(&Record(routes.clone())).expect("JSON");
        assert_eq!(text.matches("target").count(), 3, "{text}");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("routes").0, routes);
    }

    #[test]
    fn records_of_earlier_versions_are_read() {
        let routes = vec![route([10, 1, 1, 1], 0), route([10, 1, 1, 2], 0)];
        let text = serde_json::to_string(&routes).expect("JSON");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("routes").0, routes);
    }
}
