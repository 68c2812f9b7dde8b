//! A server with a thread per connection, and its clients.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

type Store = Arc<Mutex<BTreeMap<String, u64>>>;

fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let store = Store::default();
    let (sender, receiver) = mpsc::channel::<()>();
    for number in 0..3 {
        thread::Builder::new().name(format!("client {number}")).spawn(move || client(address, number))?;
    }
    thread::spawn(move || receiver.recv());
    thread::spawn(|| {
        thread::sleep(Duration::from_millis(500));
        println!("ready");
        thread::sleep(Duration::from_secs(1000));
    });
    for connection in listener.incoming() {
        let (store, connection) = (store.clone(), connection?);
        thread::spawn(move || serve(connection, &store));
    }
    drop(sender);
    Ok(())
}

fn client(address: std::net::SocketAddr, number: u64) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut answers = BufReader::new(stream.try_clone()?).lines();
    // The last client sends a request that never ends.
    let words: &[&str] = if number == 2 { &["count", "forever"] } else { &["count", "sum"] };
    for word in words {
        writeln!(stream, "{word}")?;
        answers.next().transpose()?;
    }
    answers.next();
    Ok(())
}

fn serve(stream: TcpStream, store: &Store) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let answer = answer(&line?, store);
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

fn answer(word: &str, store: &Store) -> u64 {
    let count = {
        let mut store = store.lock().unwrap();
        let count = store.entry(word.to_owned()).or_insert(0);
        *count += 1;
        *count
    };
    match word {
        "forever" => (0..).map(|n: u64| std::hint::black_box(n) & count).filter(|&n| n > 1).sum(),
        _ => count,
    }
}
