//! Figures of paths.

use std::ops::Index;

use super::{PathFigures, PathId};

/// Figures by path, sorted, without spare room: there may be a million.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathMap(Vec<(PathId, PathFigures)>);

impl PathMap {
    /// The number of paths.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The figures of a path.
    pub fn get(&self, path: &PathId) -> Option<&PathFigures> {
        self.place(path).ok().map(|place| &self.0[place].1)
    }

    pub(super) fn get_mut(&mut self, path: &PathId) -> Option<&mut PathFigures> {
        self.place(path).ok().map(|place| &mut self.0[place].1)
    }

    /// Whether a path is there.
    pub fn contains_key(&self, path: &PathId) -> bool {
        self.place(path).is_ok()
    }

    /// The paths, sorted.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &PathId> {
        self.0.iter().map(|(path, _)| path)
    }

    /// The figures, in the order of the paths.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &PathFigures> {
        self.0.iter().map(|(_, figures)| figures)
    }

    /// Paths with their figures.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&PathId, &PathFigures)> {
        self.0.iter().map(|(path, figures)| (path, figures))
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if self.0.is_empty() {
            self.clone_from(other);
            return;
        }
        // Nearly always both have the same paths.
        if self.keys().eq(other.keys()) {
            for ((_, kept), (_, figures)) in self.0.iter_mut().zip(&other.0) {
                kept.merge(figures);
            }
            return;
        }
        let mut new: Vec<(PathId, PathFigures)> = Vec::new();
        for (path, figures) in &other.0 {
            match self.place(path) {
                Ok(place) => self.0[place].1.merge(figures),
                Err(_) => new.push((*path, figures.clone())),
            }
        }
        if !new.is_empty() {
            self.0.reserve_exact(new.len());
            self.0.append(&mut new);
            self.0.sort_unstable_by_key(|(path, _)| *path);
        }
    }

    fn place(&self, path: &PathId) -> Result<usize, usize> {
        self.0.binary_search_by_key(path, |(path, _)| *path)
    }
}

impl Index<&PathId> for PathMap {
    type Output = PathFigures;

    fn index(&self, path: &PathId) -> &PathFigures {
        self.get(path).expect("a path that is known to be there")
    }
}

impl FromIterator<(PathId, PathFigures)> for PathMap {
    fn from_iter<T: IntoIterator<Item = (PathId, PathFigures)>>(paths: T) -> Self {
        let mut paths: Vec<_> = paths.into_iter().collect();
        if !paths.is_sorted_by(|(one, _), (next, _)| one < next) {
            paths.sort_unstable_by_key(|(path, _)| *path);
            paths.dedup_by_key(|(path, _)| *path);
        }
        paths.shrink_to_fit();
        Self(paths)
    }
}

impl<'a> IntoIterator for &'a PathMap {
    type Item = (&'a PathId, &'a PathFigures);
    type IntoIter = std::iter::Map<
        std::slice::Iter<'a, (PathId, PathFigures)>,
        fn(&'a (PathId, PathFigures)) -> Self::Item,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(path, figures)| (path, figures))
    }
}
