//! Compiled components: once per process, and kept on disk between processes.
//!
//! Compiled code is machine code: whoever writes it owns this process. So it is read only from a
//! directory of ours, only together with a code (HMAC-SHA-256) under a secret that no one else can
//! read, and the code is checked on the very bytes that are loaded. Anything else, a torn or foreign
//! file, a file of another version, another CPU, is compiled again and replaced.

use crate::{Digest, LoadError, Profile};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Length of the code in front of the machine code.
const MAC_BYTES: usize = 32;
/// Components kept in memory for a next load of the same bytes.
const KEPT: usize = 64;

type Compiled = (Digest, Profile, Component);

/// The compiled components of a host.
pub(crate) struct Cache {
    disk: Option<Disk>,
    kept: Mutex<VecDeque<Compiled>>,
    /// One compilation at a time: it uses all cores itself, and bombs do not add up.
    compiler: Arc<Mutex<()>>,
}

impl Cache {
    /// Without a directory, or with one that is not ours alone, nothing is kept on disk.
    pub fn new(dir: Option<&Path>) -> Self {
        let disk = dir.and_then(|dir| Disk::open(dir).ok());
        Cache { disk, kept: Mutex::default(), compiler: Arc::default() }
    }

    /// The component for admitted bytes: from memory, from disk, or compiled within `time`.
    pub fn component(
        &self,
        engine: &Engine,
        profile: Profile,
        digest: Digest,
        bytes: &[u8],
        time: Duration,
    ) -> Result<Component, LoadError> {
        if let Some(component) = self.kept(profile, digest) {
            return Ok(component);
        }
        let key = key(engine, profile, digest);
        if let Some(component) = self.disk.as_ref().and_then(|disk| disk.load(engine, &key)) {
            self.keep(profile, digest, &component);
            return Ok(component);
        }
        let component = self.compile(engine, bytes, time)?;
        if let Some(disk) = &self.disk {
            // A full disk costs the next process a compilation, not this one its plugin.
            let _ = component.serialize().map_err(io::Error::other).and_then(|code| disk.save(&key, &code));
        }
        self.keep(profile, digest, &component);
        Ok(component)
    }

    fn kept(&self, profile: Profile, digest: Digest) -> Option<Component> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(d, p, _)| *d == digest && *p == profile).map(|(_, _, c)| c.clone())
    }

    fn keep(&self, profile: Profile, digest: Digest, component: &Component) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(d, p, _)| (*d, *p) != (digest, profile));
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((digest, profile, component.clone()));
    }

    /// Compiles on a thread of its own. One that takes too long is abandoned, not stopped: it ends
    /// by itself, since admission bounds its work, and later loads wait for it.
    fn compile(&self, engine: &Engine, bytes: &[u8], time: Duration) -> Result<Component, LoadError> {
        let (sender, receiver) = sync_channel(1);
        let (engine, bytes, compiler) = (engine.clone(), bytes.to_vec(), self.compiler.clone());
        std::thread::Builder::new()
            .name("whet-plugin-compiler".into())
            .stack_size(8 << 20)
            .spawn(move || {
                let _one = compiler.lock().unwrap_or_else(PoisonError::into_inner);
                // Nobody listens any more when the load has timed out.
                let _ = sender.send(Component::new(&engine, &bytes));
            })
            .map_err(|e| LoadError::Engine(format!("no thread for the compiler: {e}")))?;
        match receiver.recv_timeout(time) {
            Ok(Ok(component)) => Ok(component),
            Ok(Err(e)) => Err(LoadError::CompileFailed(crate::log::sanitise(&format!("{e:#}"), 300))),
            Err(RecvTimeoutError::Timeout) => Err(LoadError::CompileTimeout(time)),
            Err(RecvTimeoutError::Disconnected) => {
                Err(LoadError::CompileFailed("the compiler panicked".into()))
            }
        }
    }
}

/// Everything that the machine code depends on, as a file name.
fn key(engine: &Engine, profile: Profile, digest: Digest) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let (version, compatible) = (env!("CARGO_PKG_VERSION"), hasher.finish());
    format!("{}-{}-{version}-{compatible:016x}.cwasm", digest.hex(), profile.as_str())
}

/// The directory of compiled code and the secret that vouches for its files.
struct Disk {
    dir: PathBuf,
    secret: [u8; 32],
}

impl Disk {
    fn open(dir: &Path) -> io::Result<Self> {
        private_dir(dir)?;
        Ok(Disk { secret: secret(&dir.join("secret"))?, dir: dir.to_owned() })
    }

    fn code(&self, key: &str, machine_code: &[u8]) -> Hmac<Sha256> {
        // HMAC takes keys of any length, so this cannot fail; the empty key never gets here.
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.secret).unwrap_or_else(|_| unreachable!());
        mac.update(&(key.len() as u64).to_le_bytes());
        mac.update(key.as_bytes());
        mac.update(machine_code);
        mac
    }

    fn load(&self, engine: &Engine, key: &str) -> Option<Component> {
        let file = fs::read(self.dir.join(key)).ok()?;
        let (mac, machine_code) = file.split_at_checked(MAC_BYTES)?;
        self.code(key, machine_code).verify_slice(mac).ok()?;
        deserialize(engine, machine_code)
    }

    /// Written aside and renamed, so that no reader sees half of it.
    fn save(&self, key: &str, machine_code: &[u8]) -> io::Result<()> {
        let mac = self.code(key, machine_code).finalize().into_bytes();
        let aside = self.dir.join(format!("{key}.{}.{:016x}.part", std::process::id(), unique()));
        let written = create_private(&aside).and_then(|mut file| {
            file.write_all(&mac)?;
            file.write_all(machine_code)?;
            file.sync_all()?;
            fs::rename(&aside, self.dir.join(key))
        });
        if written.is_err() {
            let _ = fs::remove_file(&aside);
        }
        written
    }
}

/// Loads machine code that this host wrote.
///
/// The one place that trusts compiled bytes. It is reached only with bytes in memory whose HMAC
/// under the host's own secret was verified just before; wasmtime itself refuses, without running
/// anything, what another version or configuration compiled.
#[expect(unsafe_code, reason = "wasmtime cannot check machine code; the HMAC over these very bytes does")]
fn deserialize(engine: &Engine, verified: &[u8]) -> Option<Component> {
    // SAFETY: `verified` is the unmodified output of `Component::serialize` of this host (see above).
    unsafe { Component::deserialize(engine, verified) }.ok()
}

/// A number that no other save of this process uses.
fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Reads the secret, or makes it; of two processes that make it, the first wins.
fn secret(path: &Path) -> io::Result<[u8; 32]> {
    if let Ok(secret) = read_secret(path) {
        return Ok(secret);
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|e| io::Error::other(e.to_string()))?;
    let aside = path.with_extension(format!("{}.{:016x}.part", std::process::id(), unique()));
    let mut file = create_private(&aside)?;
    file.write_all(&secret)?;
    file.sync_all()?;
    // A damaged secret is replaced; a good one that another process just made is kept.
    let made = if path.exists() && read_secret(path).is_err() {
        fs::rename(&aside, path)
    } else {
        fs::hard_link(&aside, path)
    };
    let _ = fs::remove_file(&aside);
    match made {
        Ok(()) => read_secret(path),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => read_secret(path),
        Err(e) => Err(e),
    }
}

fn read_secret(path: &Path) -> io::Result<[u8; 32]> {
    let mut file = File::open(path)?;
    ours_alone(&file.metadata()?)?;
    let mut secret = [0; 32];
    file.read_exact(&mut secret)?;
    Ok(secret)
}

/// Makes the directory for this user alone, or checks that it is.
#[cfg(unix)]
fn private_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir() {
        return Err(io::Error::other("the cache directory is a link or a file"));
    }
    if found.permissions().mode() & 0o077 != 0 {
        // Fails unless it is ours; what others may have written before is refused by its code.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    }
    ours_alone(&fs::symlink_metadata(dir)?)
}

/// Refuses what another user owns or may write or read.
#[cfg(unix)]
fn ours_alone(found: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let owner = fs::metadata("/proc/self").map(|m| m.uid()).unwrap_or_else(|_| found.uid());
    if found.uid() != owner || found.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "others can reach the plugin cache"));
    }
    Ok(())
}

#[cfg(unix)]
fn create_private(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn private_dir(_: &Path) -> io::Result<()> {
    Err(io::Error::other("compiled plugins are kept on disk on Unix only"))
}

#[cfg(not(unix))]
fn ours_alone(_: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}
