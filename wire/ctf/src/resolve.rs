//! Finds the fields that lengths and tags name.

use crate::types::{Integer, Length, Location, Type};

/// Scopes in the order in which they are decoded.
pub(crate) const SCOPES: usize = 6;

/// Structures around a type, each with the number of its fields that come before.
type Around<'a> = Vec<(&'a Type, usize)>;

/// Gives every length and tag in `scopes[own]` the slot of the field that it names.
///
/// # Errors
/// If there is no such field, or it is no integer.
pub(crate) fn resolve(
    scopes: &[Option<&Type>; SCOPES],
    own: usize,
    slots: &mut usize,
) -> Result<(), String> {
    let Some(value) = scopes[own] else { return Ok(()) };
    Resolver { scopes, own, slots }.walk(value, &mut Vec::new())
}

struct Resolver<'a, 's> {
    scopes: &'s [Option<&'a Type>; SCOPES],
    own: usize,
    slots: &'s mut usize,
}

impl<'a> Resolver<'a, '_> {
    fn walk(&mut self, value: &'a Type, around: &mut Around<'a>) -> Result<(), String> {
        match value {
            Type::Structure(structure) => {
                for (index, (_, field)) in structure.fields.iter().enumerate() {
                    around.push((value, index));
                    self.walk(field, around)?;
                    around.pop();
                }
            }
            Type::Array { element, length, .. } => {
                self.length(length, around)?;
                self.walk(element, around)?;
            }
            Type::Bounded { length, .. } | Type::Blob { length, .. } => {
                self.length(length, around)?;
            }
            Type::Variant { tag, arms } => {
                let found = self.find(tag, around)?;
                for arm in arms {
                    labels(found, &arm.name, &arm.ranges);
                    self.walk(&arm.value, around)?;
                }
            }
            Type::Optional { tag, arm } => {
                self.find(tag, around)?;
                self.walk(&arm.value, around)?;
            }
            Type::Integer(_) | Type::Float { .. } | Type::Text(_) => {}
        }
        Ok(())
    }

    fn length(&mut self, length: &'a Length, around: &Around<'a>) -> Result<(), String> {
        match length {
            Length::Fixed(_) => Ok(()),
            Length::Field(location) => self.find(location, around).map(drop),
        }
    }

    fn find(&mut self, location: &Location, around: &Around<'a>) -> Result<&'a Integer, String> {
        let found = match location.scope {
            Some(scope) => {
                if scope > self.own {
                    None
                } else if scope == self.own {
                    // Only fields before this one; the outermost structure knows how many.
                    around.first().and_then(|(root, before)| {
                        descend(root, &location.path, around, 0, *before)
                    })
                } else {
                    self.scopes[scope].and_then(|root| below(root, &location.path))
                }
            }
            None => {
                let ups = location.path.iter().take_while(|name| name.is_none()).count();
                let path = &location.path[ups..];
                let levels = around.len().saturating_sub(ups);
                (0..levels).rev().find_map(|level| {
                    let (root, before) = around[level];
                    descend(root, path, around, level, before)
                })
            }
        };
        let found = found.ok_or_else(|| {
            let path: Vec<&str> =
                location.path.iter().map(|name| name.as_deref().unwrap_or("..")).collect();
            format!("no integer before it is named {:?}", path.join("."))
        })?;
        if found.slot.get() == 0 {
            *self.slots += 1;
            found.slot.set(*self.slots);
        }
        location.slot.set(found.slot.get());
        Ok(found)
    }
}

/// Follows a path from a structure, of which only the first fields are decoded yet; the field at
/// `before` is the one that holds what is being resolved.
fn descend<'a>(
    root: &'a Type,
    path: &[Option<String>],
    around: &Around<'a>,
    level: usize,
    before: usize,
) -> Option<&'a Integer> {
    let Type::Structure(structure) = root else { return None };
    let (first, rest) = path.split_first()?;
    let first = first.as_ref()?;
    let fields = structure.fields.get(..before)?;
    if let Some((_, value)) = fields.iter().rev().find(|(name, _)| name == first) {
        return if rest.is_empty() { integer(value) } else { below(value, rest) };
    }
    // The field that is being decoded: its earlier members count.
    let (name, value) = structure.fields.get(before)?;
    let (inner, inner_before) = around.get(level + 1)?;
    (name == first && std::ptr::eq(*inner, value))
        .then(|| descend(inner, rest, around, level + 1, *inner_before))
        .flatten()
}

fn below<'a>(value: &'a Type, path: &[Option<String>]) -> Option<&'a Integer> {
    let Some((first, rest)) = path.split_first() else { return integer(value) };
    let Type::Structure(structure) = value else { return None };
    let first = first.as_ref()?;
    let (_, value) = structure.fields.iter().find(|(name, _)| name == first)?;
    below(value, rest)
}

const fn integer(value: &Type) -> Option<&Integer> {
    match value {
        Type::Integer(integer) => Some(integer),
        _ => None,
    }
}

/// The ranges of a label; LTTng puts an underscore before names, not before labels.
fn labels(tag: &Integer, name: &str, ranges: &std::cell::OnceCell<Vec<(i128, i128)>>) {
    let plain = |text: &str| text.strip_prefix('_').unwrap_or(text).to_owned();
    ranges.get_or_init(|| {
        let of = |fits: &dyn Fn(&str) -> bool| -> Vec<(i128, i128)> {
            let fitting = tag.mappings.iter().filter(|mapping| fits(&mapping.label));
            fitting.map(|mapping| (mapping.first, mapping.last)).collect()
        };
        let exact = of(&|label| label == name);
        if exact.is_empty() { of(&|label| plain(label) == plain(name)) } else { exact }
    });
}
