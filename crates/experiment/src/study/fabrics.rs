//! Built fabrics. Runs with equal `[fabric]` settings share one for as long as any of them holds it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use weft_fabric::Fabric;

use crate::error::KeyError;
use crate::scenario::fabric::FabricSpec;

/// Fabrics of a study by their settings.
#[derive(Debug, Default)]
pub struct Fabrics(Mutex<Vec<(FabricSpec, Weak<Fabric>)>>);

impl Fabrics {
    /// The fabric of these settings, and whether it was built for this call.
    ///
    /// # Errors
    /// Settings of which no fabric can be built.
    pub fn get(&self, spec: &FabricSpec) -> Result<(Arc<Fabric>, bool), KeyError> {
        if let Some(fabric) = self.shared(spec) {
            return Ok((fabric, false));
        }
        // Not under the lock: other runs build theirs at the same time.
        let fabric = Arc::new(spec.build()?);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, fabric)| fabric.strong_count() > 0);
        known.push((spec.clone(), Arc::downgrade(&fabric)));
        Ok((fabric, true))
    }

    fn shared(&self, spec: &FabricSpec) -> Option<Arc<Fabric>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(known, _)| known == spec).and_then(|(_, fabric)| fabric.upgrade())
    }
}
