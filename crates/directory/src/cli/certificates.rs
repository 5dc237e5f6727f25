//! A small certificate authority: the common name of every certificate is `principal-N`.
//!
//! Certificates have no end that matters unless one is asked for: who is no longer to be trusted is denied, or taken out of the policy.

use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use weft_control::directory::PrincipalId;

use crate::server::audit::date;

/// A certificate and its key, PEM.
#[derive(Debug)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// A new authority.
pub fn authority() -> Result<Pair, rcgen::Error> {
    let key = KeyPair::generate()?;
    Ok(Pair { certificate: authority_params()?.self_signed(&key)?.pem(), key: key.serialize_pem() })
}

/// A certificate signed by the authority with this key. With names it is a server's, reached under them; else a client's. With `days` it ends at the
/// start of the day (UTC) that many days after today.
pub fn signed(authority_key: &str, principal: PrincipalId, names: &[String], days: Option<u32>) -> Result<Pair, rcgen::Error> {
    // The authority's parameters are always the same, so its key is all that is needed to sign.
    let issuer = Issuer::new(authority_params()?, KeyPair::from_pem(authority_key)?);
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = name(&format!("principal-{}", principal.0));
    if let Some(days) = days {
        let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400;
        let (year, month, day) = date(today + u64::from(days));
        params.not_after = date_time_ymd(year as i32, month as u8, day as u8);
    }
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // A server is a client of its peers.
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if !names.is_empty() {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    let key = KeyPair::generate()?;
    Ok(Pair { certificate: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() })
}

fn authority_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = name("Weft directory");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

#[cfg(test)]
mod tests {
    use x509_parser::pem::parse_x509_pem;

    use super::*;

    #[test]
    fn a_certificate_ends_after_the_days_that_it_has() {
        let authority = authority().unwrap();
        let days_left = |days| {
            let pair = signed(&authority.key, PrincipalId(17), &[], days).unwrap();
            let (_, pem) = parse_x509_pem(pair.certificate.as_bytes()).unwrap();
            let end = pem.parse_x509().unwrap().validity().not_after.timestamp() as u64;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
            (end - now).div_ceil(86_400)
        };
        assert_eq!((days_left(Some(90)), days_left(Some(1))), (90, 1));
        assert!(days_left(None) > 365 * 1000);
    }
}
