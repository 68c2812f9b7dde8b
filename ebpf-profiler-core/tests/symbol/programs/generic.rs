//! Rust: generics, closures, iterators, trait objects, modules.

mod shapes {
    pub trait Area {
        fn area(&self) -> f64;
    }

    pub struct Circle(pub f64);
    pub struct Rectangle<T>(pub T, pub T);

    impl Area for Circle {
        fn area(&self) -> f64 {
            self.0 * self.0 * std::f64::consts::PI
        }
    }

    impl<T: Copy + Into<f64>> Area for Rectangle<T> {
        fn area(&self) -> f64 {
            self.0.into() * self.1.into()
        }
    }
}

use shapes::{Area, Circle, Rectangle};

#[inline(never)]
fn apply<T, F: Fn(T) -> T>(times: usize, start: T, step: F) -> T {
    (0..times).fold(start, |value, _| step(value))
}

#[inline(never)]
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = text.split_whitespace().map(|word| word.to_uppercase()).collect();
    words.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    words
}

fn main() {
    let count = std::env::args().count();
    let shapes: Vec<Box<dyn Area>> =
        vec![Box::new(Circle(count as f64)), Box::new(Rectangle(1.5f32, 2.0)), Box::new(Rectangle(3u8, 4))];
    let total: f64 = shapes.iter().map(|shape| shape.area()).sum();
    let number = apply(count * 3, 1u64, |value| value.wrapping_mul(31).rotate_left(5));
    let text = apply(count, String::from("one two three"), |text| text.clone() + " more");
    println!("{total} {number} {:?}", words(&text));
}
