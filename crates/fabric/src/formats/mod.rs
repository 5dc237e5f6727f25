//! How other tools write fabrics, flows and size distributions down.
