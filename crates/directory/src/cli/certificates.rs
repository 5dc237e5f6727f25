//! A small certificate authority: the common name of every certificate is `principal-N`.
//!
//! Certificates have no end that matters: who is no longer to be trusted is taken out of the policy.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use weft_control::directory::PrincipalId;

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

/// A certificate signed by the authority with this key. With names it is a server's, reached under them; else a client's.
pub fn signed(authority_key: &str, principal: PrincipalId, names: &[String]) -> Result<Pair, rcgen::Error> {
    // The authority's parameters are always the same, so its key is all that is needed to sign.
    let issuer = Issuer::new(authority_params()?, KeyPair::from_pem(authority_key)?);
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = name(&format!("principal-{}", principal.0));
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
