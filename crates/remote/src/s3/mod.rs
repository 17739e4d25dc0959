//! Objects in stores that speak S3's protocol: `s3://bucket/key`.
//!
//! ```text
//! object.rs       which object, in which region of which store; its signed URLs
//! environment.rs  variables and profile files     credentials.rs  where credentials come from, and when they expire
//! endpoints.rs    servers that give credentials   refusal.rs      what a store says when it refuses
//! exchange.rs     one signed request              list.rs         what is in a bucket
//! upload.rs       writing an object               parts.rs        in parts
//! ```
//! A signed URL is a secret for as long as it holds. It goes into a request and nowhere else: errors, reports and names
//! in caches have `s3://bucket/key`. Where requests go is decided by the environment of the process or by the program.
//! A URI gives the name of a bucket and a key, and neither can lead to another host.

mod credentials;
mod endpoints;
mod environment;
mod exchange;
mod list;
mod object;
mod parts;
mod refusal;
mod upload;

pub use environment::{Environment, S3_ENDPOINT, S3_PROFILE};
pub use list::{Listed, list};
pub use upload::{UploadOptions, expect_absent, upload};

pub(crate) use exchange::{exchange, get};
pub(crate) use object::Object;
pub use object::{check_settings, is_object};
