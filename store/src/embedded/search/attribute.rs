//! Values in attribute maps.

use arrow::array::{Array, AsArray, MapArray};

/// The text of each row's attribute with this key.
pub(crate) fn texts<'a>(
    maps: &'a MapArray,
    key: &'a str,
) -> Option<impl Iterator<Item = Option<&'a str>>> {
    let keys = maps.keys().as_string_opt::<i32>()?;
    let values = maps.values().as_struct_opt()?.column_by_name("value")?.as_string_opt::<i32>()?;
    let offsets = maps.value_offsets();
    Some((0..maps.len()).map(move |row| {
        let mut entries = offsets[row] as usize..offsets[row + 1] as usize;
        let entry = entries.find(|&entry| keys.value(entry) == key)?;
        maps.is_valid(row).then(|| values.value(entry))
    }))
}
