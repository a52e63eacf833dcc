//! The plugin sandbox: no imports, bounded memory, and limited fuel per call.

use wasmtime::{
    Config, Engine, Error, Instance, InstancePre, Linker, Memory, Module, ResourceLimiter, Store,
    Trap, TypedFunc, WasmFeatures,
};

use super::abi::{self, ANSWER_AT, ANSWER_BYTES, AREA_BYTES, INPUT_AT, INPUT_BYTES};

/// Fuel of a call: about 0.1 ms. One unit is about one instruction, or one byte copied or filled.
pub(super) const FUEL_PER_CALL: u64 = 100_000;
/// Fuel for starting a plugin.
const FUEL_AT_START: u64 = 10 * FUEL_PER_CALL;
/// Fuel charged for the call itself.
const FUEL_OF_CALLING: u64 = 200;
/// Maximum memory of a plugin.
pub(super) const MAX_MEMORY_BYTES: usize = 4 << 20;
/// Maximum entries of a plugin's function table.
const MAX_TABLE_ENTRIES: usize = 10_000;
/// Maximum stack that a plugin may use of the calling thread.
const MAX_STACK_BYTES: usize = 128 << 10;

/// Names of the exports of a plugin.
pub(super) const MEMORY: &str = "memory";
pub(super) const AREA: &str = "spanwise_plugin_1";
pub(super) const AREA_OF_ANY_VERSION: &str = "spanwise_plugin_";
pub(super) const RECOGNISE: &str = "recognise";
pub(super) const MEASURE: &str = "measure";
pub(super) const DECODE: &str = "decode";

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("it trapped: {0}")]
    Trap(String),
    #[error("it ran for too long")]
    Fuel,
    #[error("it wanted more than {MAX_MEMORY_BYTES} bytes of memory")]
    Memory,
    #[error(transparent)]
    Nonsense(#[from] abi::Nonsense),
}

/// Memory limits of a plugin, and whether it exceeded them.
#[derive(Debug, Default)]
pub(super) struct Limits {
    refused: bool,
}

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool, Error> {
        self.grow(desired <= MAX_MEMORY_BYTES)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> Result<bool, Error> {
        self.grow(desired <= MAX_TABLE_ENTRIES)
    }

    fn instances(&self) -> usize {
        1
    }

    fn memories(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        4
    }
}

impl Limits {
    /// A refused allocation ends the call. Few programs survive one, and none reports it.
    fn grow(&mut self, allowed: bool) -> Result<bool, Error> {
        self.refused |= !allowed;
        if allowed { Ok(true) } else { Err(Error::msg("more memory than it may have")) }
    }
}

/// Creates the compiler for plugins. It supports WebAssembly 1.0 and the extensions that compilers
/// use by default; no threads, no SIMD, no unfinished proposals.
///
/// # Errors
/// If code cannot be generated for this machine's processor.
pub(super) fn engine() -> Result<Engine, Error> {
    let wanted = WasmFeatures::MUTABLE_GLOBAL
        | WasmFeatures::SATURATING_FLOAT_TO_INT
        | WasmFeatures::SIGN_EXTENSION
        | WasmFeatures::MULTI_VALUE
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::REFERENCE_TYPES
        | WasmFeatures::FLOATS;
    let mut config = Config::new();
    config
        .wasm_features(WasmFeatures::all(), false)
        .wasm_features(wanted, true)
        .consume_fuel(true)
        .max_wasm_stack(MAX_STACK_BYTES)
        // Check memory bounds in code: plugins must not take over the program's signal handlers and
        // address space.
        .signals_based_traps(false)
        .memory_reservation(0)
        .memory_reservation_for_growth(0)
        .memory_guard_size(0)
        .memory_init_cow(false)
        .wasm_backtrace_max_frames(None)
        .native_unwind_info(false)
        .concurrency_support(false);
    Engine::new(&config)
}

/// Prepares a module for instantiation. The module must not have imports.
///
/// # Errors
/// If the module has imports.
pub(super) fn prepare(module: &Module) -> Result<InstancePre<Limits>, Error> {
    Linker::new(module.engine()).instantiate_pre(module)
}

/// A running plugin.
pub(super) struct Sandbox {
    store: Store<Limits>,
    memory: Memory,
    area: usize,
    recognise: TypedFunc<(u32, u32), u32>,
    measure: TypedFunc<(u32, u32), i64>,
    decode: TypedFunc<(u32, u32, i64), u32>,
    spent: u64,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("area", &self.area).finish_non_exhaustive()
    }
}

/// An export that a plugin must have.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) name: &'static str,
    pub(super) form: &'static str,
}

/// Why a plugin does not start.
#[derive(Debug)]
pub(super) enum StartFailure {
    Missing(Missing),
    Failed(Failure),
    /// The area that the plugin declares lies outside its memory.
    Area(u32),
}

impl Sandbox {
    /// Starts a plugin.
    pub(super) fn start(prepared: &InstancePre<Limits>) -> Result<Self, StartFailure> {
        let mut store = Store::new(prepared.module().engine(), Limits::default());
        store.limiter(|limits| limits);
        let failed = |store: &Store<Limits>, error| StartFailure::Failed(failure(store, &error));
        let fueled = store.set_fuel(FUEL_AT_START);
        fueled.map_err(|error| failed(&store, error))?;
        let instance = prepared.instantiate(&mut store).map_err(|error| failed(&store, error))?;
        let missing = |name, form| StartFailure::Missing(Missing { name, form });
        let memory = instance
            .get_memory(&mut store, MEMORY)
            .ok_or_else(|| missing(MEMORY, "its memory, of 32 bits"))?;
        let form = "a function () -> i32";
        let area = function::<(), u32>(&instance, &mut store, AREA, form)?;
        let form = "a function (i32, i32) -> i32";
        let recognise = function(&instance, &mut store, RECOGNISE, form)?;
        let form = "a function (i32, i32) -> i64";
        let measure = function(&instance, &mut store, MEASURE, form)?;
        let form = "a function (i32, i32, i64) -> i32";
        let decode = function(&instance, &mut store, DECODE, form)?;
        let area = area.call(&mut store, ()).map_err(|error| failed(&store, error))?;
        let end = (area as usize).saturating_add(AREA_BYTES);
        if end > memory.data_size(&store) {
            return Err(StartFailure::Area(area));
        }
        let area = area as usize;
        Ok(Self { store, memory, area, recognise, measure, decode, spent: 0 })
    }

    /// The plugin's memory and the offset of its area. The area is always inside, because memory
    /// never shrinks.
    pub(super) fn memory(&self) -> (&[u8], usize) {
        (self.memory.data(&self.store), self.area)
    }

    /// Returns the fuel used since the last call of this method.
    pub(super) const fn take_spent(&mut self) -> u64 {
        std::mem::replace(&mut self.spent, 0)
    }

    /// Whether bytes are the start of a message of this side.
    pub(super) fn recognise(&mut self, side: u32, bytes: &[u8]) -> Result<u32, Failure> {
        let count = self.give(bytes);
        let called = self.recognise.call(&mut self.store, (side, count));
        self.called(called)
    }

    /// Length of the message that begins with these bytes.
    pub(super) fn measure(&mut self, side: u32, bytes: &[u8]) -> Result<i64, Failure> {
        let count = self.give(bytes);
        let called = self.measure.call(&mut self.store, (side, count));
        self.called(called)
    }

    /// Asks the plugin to describe the message that begins with these bytes; `false` if it is no
    /// message.
    pub(super) fn decode(&mut self, side: u32, bytes: &[u8], length: u64) -> Result<bool, Failure> {
        let count = self.give(bytes);
        let at = self.area + ANSWER_AT;
        if let Some(answer) = self.memory.data_mut(&mut self.store).get_mut(at..at + ANSWER_BYTES) {
            answer.fill(0);
        }
        let called = self.decode.call(&mut self.store, (side, count, length.cast_signed()));
        match self.called(called)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(abi::Nonsense::Unknown { name: "decode", value }.into()),
        }
    }

    /// Writes the input for the next call and refills its fuel.
    fn give(&mut self, bytes: &[u8]) -> u32 {
        let bytes = &bytes[..bytes.len().min(INPUT_BYTES)];
        let at = self.area + INPUT_AT;
        if let Some(input) = self.memory.data_mut(&mut self.store).get_mut(at..at + bytes.len()) {
            input.copy_from_slice(bytes);
        }
        // Fails only if fuel is disabled, and `engine` enables it.
        let _ = self.store.set_fuel(FUEL_PER_CALL);
        bytes.len() as u32
    }

    fn called<R>(&mut self, result: Result<R, Error>) -> Result<R, Failure> {
        let left = self.store.get_fuel().unwrap_or(0);
        self.spent += FUEL_OF_CALLING + FUEL_PER_CALL.saturating_sub(left);
        result.map_err(|error| failure(&self.store, &error))
    }
}

fn function<P: wasmtime::WasmParams, R: wasmtime::WasmResults>(
    instance: &Instance,
    store: &mut Store<Limits>,
    name: &'static str,
    form: &'static str,
) -> Result<TypedFunc<P, R>, StartFailure> {
    instance.get_typed_func(store, name).map_err(|_| StartFailure::Missing(Missing { name, form }))
}

fn failure(store: &Store<Limits>, error: &Error) -> Failure {
    match error.downcast_ref::<Trap>() {
        _ if store.data().refused => Failure::Memory,
        Some(Trap::OutOfFuel) => Failure::Fuel,
        Some(trap) => Failure::Trap(trap.to_string().replace("wasm trap: ", "")),
        None => Failure::Trap(error.to_string()),
    }
}
