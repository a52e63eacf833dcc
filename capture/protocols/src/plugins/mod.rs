//! Parsers for the operator's own protocols: WebAssembly modules that the agent runs in a sandbox.
//! `docs/plugins.md` describes the interface.
//!
//! A plugin keeps no state between calls. It says whether bytes look like its protocol, how long a
//! message is, and what the message means. The agent handles message boundaries, losses, pairing
//! and spans, as for every other protocol.

mod abi;
mod hosted;
mod parser;
mod reader;
mod sandbox;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox::{
    AREA, AREA_OF_ANY_VERSION, Limits, MAX_MEMORY_BYTES, Missing, Sandbox, StartFailure,
};
use spanwise_model::protocol;
use wasmtime::{ExternType, InstancePre, Module};

use crate::registry::is_built_in;

pub use hosted::PluginFacts;
pub use hosted::Plugins;
pub(crate) use parser::Speech;

/// Maximum size of a plugin file.
const MAX_MODULE_BYTES: u64 = 4 << 20;
/// Maximum number of plugins per agent.
const MAX_PLUGINS: usize = 16;

/// Protocol names that spans use in addition to the parsers' names. Plugins cannot use them.
const TAKEN: [&str; 4] = [protocol::HTTP, protocol::GRPC, protocol::WEBSOCKET, protocol::TCP];

/// Why a plugin is rejected.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The file cannot be read.
    #[error(
        "cannot read the plugin {}: {source}; agent.plugins (--plugin) names WebAssembly files",
        path.display()
    )]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error from the system.
        source: std::io::Error,
    },
    /// The file is no plugin, or an invalid one.
    #[error("the plugin {}: {reason}", path.display())]
    Refused {
        /// Path of the file.
        path: PathBuf,
        /// The problem, and how to fix it.
        reason: String,
    },
}

/// A plugin that was loaded, compiled and tested.
#[derive(Clone)]
pub struct Plugin(Arc<Loaded>);

struct Loaded {
    path: PathBuf,
    name: &'static str,
    keys: Vec<&'static str>,
    prepared: InstancePre<Limits>,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.0.name)
            .field("path", &self.0.path)
            .finish_non_exhaustive()
    }
}

impl Plugin {
    /// Protocol name, as spans show it.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// Path of the plugin file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Status of the plugin before its first call.
    pub fn facts(&self) -> PluginFacts {
        let file = self.path().display().to_string();
        PluginFacts { name: self.name(), file, switched_off: false, failures: 0 }
    }

    /// Loads the plugins in these files, in order.
    ///
    /// # Errors
    /// Describes the problem of the first rejected plugin, and how to fix it.
    pub fn load_all(paths: &[PathBuf]) -> Result<Vec<Self>, PluginError> {
        let mut all: Vec<Self> = Vec::with_capacity(paths.len());
        for path in paths {
            let refuse = |reason| PluginError::Refused { path: path.clone(), reason };
            if all.len() == MAX_PLUGINS {
                return Err(refuse(format!("{MAX_PLUGINS} plugins are the most; leave some out")));
            }
            let plugin = Self::load(path)?;
            if let Some(other) = all.iter().find(|other| other.name() == plugin.name()) {
                return Err(refuse(format!(
                    "its protocol is called `{}`, as that of {}; leave one of them out, or give \
                     it another name",
                    plugin.name(),
                    other.path().display()
                )));
            }
            all.push(plugin);
        }
        Ok(all)
    }

    /// Loads a plugin from a file and tries to start it.
    ///
    /// # Errors
    /// Describes the problem, and how to fix it.
    pub fn load(path: &Path) -> Result<Self, PluginError> {
        let read = |source| PluginError::Read { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(read)?;
        file.take(MAX_MODULE_BYTES + 1).read_to_end(&mut bytes).map_err(read)?;
        Self::compile(path, &bytes)
            .map_err(|reason| PluginError::Refused { path: path.to_owned(), reason })
    }

    fn compile(path: &Path, bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() as u64 > MAX_MODULE_BYTES {
            return Err(format!(
                "it has more than {MAX_MODULE_BYTES} bytes; strip it (wasm-ld --strip-all)"
            ));
        }
        let engine = sandbox::engine().map_err(|error| {
            format!("plugins cannot be compiled on this machine: {error}; start without them")
        })?;
        let module =
            Module::from_binary(&engine, bytes).map_err(|error| not_wasm(bytes, &error))?;
        check_version(&module)?;
        check_imports(&module)?;
        let prepared = sandbox::prepare(&module).map_err(|error| error.to_string())?;
        let sandbox = Sandbox::start(&prepared).map_err(cannot_start)?;
        let (memory, area) = sandbox.memory();
        let about = abi::about(memory, area)
            .map_err(|error| format!("{error}; correct its source (docs/plugins.md)"))?;
        if is_built_in(&about.name) || TAKEN.contains(&about.name.as_str()) {
            return Err(format!(
                "its protocol is called `{}`, as one that is read without plugins; give it \
                 another name",
                about.name
            ));
        }
        // Spans refer to the names as long as the program runs. There are few, so they are leaked.
        let forever = |name: String| -> &'static str { name.leak() };
        let keys = about.keys.into_iter().map(forever).collect();
        let name = forever(about.name);
        Ok(Self(Arc::new(Loaded { path: path.to_owned(), name, keys, prepared })))
    }
}

fn not_wasm(bytes: &[u8], error: &wasmtime::Error) -> String {
    const MODULE: &[u8] = b"\0asm\x01\0\0\0";
    if bytes.starts_with(MODULE) {
        return format!(
            "it is a WebAssembly module that this program cannot take: {error:#}; build it for \
             wasm32 without threads, vectors and exceptions"
        );
    }
    if bytes.starts_with(&MODULE[..4]) {
        return "it is a WebAssembly component, or of another version of WebAssembly; build it \
                as a plain module"
            .to_owned();
    }
    "it is no WebAssembly module; build one as docs/plugins.md says".to_owned()
}

fn check_version(module: &Module) -> Result<(), String> {
    let mut others = module.exports().filter_map(|export| {
        let version = export.name().strip_prefix(AREA_OF_ANY_VERSION)?;
        version.parse::<u32>().ok()
    });
    if module.get_export(AREA).is_some() {
        return Ok(());
    }
    let own = abi::VERSION;
    match others.next() {
        Some(other) => Err(format!(
            "it is made for interface {other}, and this program has interface {own}; build it \
             with the spanwise_plugin.h of this version"
        )),
        None => Err(format!(
            "it exports no function `{AREA}`, so it is no plugin; export what docs/plugins.md \
             lists"
        )),
    }
}

fn check_imports(module: &Module) -> Result<(), String> {
    let mut imports = module.imports();
    let Some(first) = imports.next() else { return Ok(()) };
    let more = match imports.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = match first.ty() {
        ExternType::Func(_) => "function",
        ExternType::Memory(_) => "memory",
        ExternType::Global(_) => "global",
        _ => "import",
    };
    Err(format!(
        "it wants the {what} `{}.{}`{more} from outside, and plugins get nothing; build it \
         without WASI and without a C library, and define what the linker leaves open",
        first.module(),
        first.name()
    ))
}

fn cannot_start(failure: StartFailure) -> String {
    match failure {
        StartFailure::Missing(Missing { name, form }) => {
            format!("it does not export `{name}` as {form}; export what docs/plugins.md lists")
        }
        StartFailure::Failed(failure) => format!(
            "it does not start: {failure}; it may have {MAX_MEMORY_BYTES} bytes of memory, and \
             must not do much before it is asked"
        ),
        StartFailure::Area(area) => format!(
            "its `{AREA}` says {area}, and behind that its memory ends too soon; return the \
             address of a struct spanwise_plugin"
        ),
    }
}
