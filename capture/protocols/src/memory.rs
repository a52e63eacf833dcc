//! State that parsers keep across connections.

use std::any::{Any, TypeId};
use std::fmt;

/// Holds one value per type that a parser asks for. A value is created on first use. Each type
/// limits its own size.
#[derive(Default)]
pub struct Memory(Vec<(TypeId, Box<dyn Any + Send>)>);

impl Memory {
    /// The value of this type.
    #[inline]
    pub fn of<T: Any + Send + Default>(&mut self) -> &mut T {
        let id = TypeId::of::<T>();
        // A linear search is enough for two or three values.
        let at = self.0.iter().position(|(kept, _)| *kept == id).unwrap_or_else(|| {
            self.0.push((id, Box::<T>::default()));
            self.0.len() - 1
        });
        match self.0[at].1.downcast_mut() {
            Some(value) => value,
            None => unreachable!("values are kept under their own types"),
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memory").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_one_value() {
        let mut memory = Memory::default();
        *memory.of::<u32>() += 1;
        memory.of::<String>().push('a');
        *memory.of::<u32>() += 1;
        assert_eq!((*memory.of::<u32>(), memory.of::<String>().as_str()), (2, "a"));
    }
}
