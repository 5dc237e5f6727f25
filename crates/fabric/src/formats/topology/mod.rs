//! Fabrics as other tools write them.
