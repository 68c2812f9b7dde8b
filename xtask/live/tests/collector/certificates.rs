//! An authority, and certificates signed by it for a collector and for an agent.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::scratch::Scratch;

/// Paths of files.
pub(crate) struct Certificates {
    pub(crate) authority: String,
    pub(crate) server: String,
    pub(crate) server_key: String,
    pub(crate) client: String,
    pub(crate) client_key: String,
}

impl Certificates {
    pub(crate) fn new(scratch: &Scratch) -> Certificates {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = scratch.write("authority.pem", &params.self_signed(&key).unwrap().pem());
        let issuer = Issuer::new(params, key);
        let (server, server_key) = sign(&issuer, "127.0.0.1", scratch);
        let (client, client_key) = sign(&issuer, "agent", scratch);
        Certificates { authority, server, server_key, client, client_key }
    }
}

fn sign(issuer: &Issuer<'_, KeyPair>, name: &str, scratch: &Scratch) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
    let file = |ending: &str, contents: &str| scratch.write(&format!("{name}.{ending}"), contents);
    (file("pem", &certificate.pem()), file("key", &key.serialize_pem()))
}
