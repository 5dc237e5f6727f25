//! Any text is an error with a message, or a policy that lets nobody do what it does not say; and the same as a list of denied principals.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_control::directory::denied;
use weft_control::directory::policy::{Policy, Role};
use weft_control::directory::{Key, PrincipalId, ServiceId};

fuzz_target!(|text: &str| {
    policy(text);
    if let Ok(denied) = denied::parse(text) {
        assert!(denied.len() <= denied::MOST && !denied.contains(&PrincipalId(0)));
    }
});

fn policy(text: &str) {
    match Policy::parse(text) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(policy) => {
            assert!(policy.version() > 0);
            assert!(!policy.may_resolve(ServiceId(0), ServiceId(0)), "no service is not a service");
            let group: Key = "group:1".parse().expect("a key");
            for principal in (0..8).map(PrincipalId) {
                let role = policy.role(principal);
                if policy.resolves_all(principal) {
                    assert!(matches!(role, Role::Provisioner | Role::Server | Role::Admin));
                }
                if policy.may_update(principal, &group, None, None) {
                    assert!(matches!(role, Role::Provisioner | Role::Admin));
                }
            }
            for service in (1..8).map(ServiceId) {
                for other in (1..8).map(ServiceId) {
                    // Who may resolve another is a service, and may resolve itself.
                    assert!(!policy.may_resolve(other, service) || policy.may_resolve(other, other));
                }
            }
        }
    }
}
