//! The other process: started, asked line by line, waited for no longer than agreed, ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use super::wire::{self, Memory, Reply, LONGEST_LINE, PROOF};
use super::PeerError;
use crate::error::Error;

/// How long a process that has closed its output may take to end.
const END: Duration = Duration::from_secs(5);

/// How much of a line stands in an error.
const SHOWN: usize = 80;

/// A running peer. It is ended, by force if need be, when the value goes.
pub struct Sibling {
    child: Child,
    /// Its standard input; what is left of it when it was closed.
    requests: Option<ChildStdin>,
    lines: Receiver<Line>,
    limit: Duration,
    /// When it was started or asked last.
    asked: Instant,
}

enum Line {
    Text(String),
    /// Longer than a line may be, or not UTF-8: its begin.
    Unreadable(String),
    End,
}

impl Sibling {
    /// Starts `command`, whose messages go to our standard error. It gets `limit` for each answer.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be started.
    pub fn start(mut command: Command, limit: Duration) -> Result<Self, Error> {
        let asked = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(Error::io("start", command.get_program()))?;
        let requests = child.stdin.take();
        let output = child.stdout.take().expect("it is a pipe");
        // A peer that talks without end waits for us.
        let (sender, lines) = sync_channel(4);
        std::thread::spawn(move || read_lines(output, &sender));
        Ok(Self { child, requests, lines, limit, asked })
    }

    /// Waits until the peer has read its files and made a first proof. Returns the seconds that it says it took.
    ///
    /// # Errors
    /// [`PeerError`]; the peer is of no use then.
    pub fn ready(&mut self) -> Result<f64, PeerError> {
        let doing = "read the key and the circuit";
        match self.answer(doing)? {
            (Reply::Ready { seconds }, waited) => in_time(seconds, waited, doing),
            (reply, _) => Err(nonsense(doing, &reply.to_string())),
        }
    }

    /// Asks for a proof from vectors in `memory`. Returns the seconds that it says it took, and the proof, unchecked.
    ///
    /// # Errors
    /// [`PeerError`]; the peer is of no use then.
    pub fn prove(&mut self, memory: Memory) -> Result<(f64, [u8; PROOF]), PeerError> {
        let request = wire::request(memory);
        self.asked = Instant::now();
        if let Some(requests) = &mut self.requests {
            // If it is gone, its output has ended too, which tells more.
            if writeln!(requests, "{request}").and_then(|()| requests.flush()).is_err() {
                self.requests = None;
            }
        }
        match self.answer(&request)? {
            (Reply::Proof { seconds, proof }, waited) => Ok((in_time(seconds, waited, &request)?, proof)),
            (reply, _) => Err(nonsense(&request, &reply.to_string())),
        }
    }

    /// The next line, and how long it took to come.
    fn answer(&mut self, doing: &str) -> Result<(Reply, Duration), PeerError> {
        match self.lines.recv_timeout(self.limit) {
            Ok(Line::Text(line)) => match line.parse() {
                Ok(Reply::Error(text)) => Err(PeerError::Failed { doing: doing.to_owned(), text }),
                Ok(reply) => Ok((reply, self.asked.elapsed())),
                Err(()) => Err(nonsense(doing, &line)),
            },
            Ok(Line::Unreadable(begin)) => Err(nonsense(doing, &begin)),
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                Err(PeerError::Hung { doing: doing.to_owned(), seconds: self.limit.as_secs() })
            }
            Ok(Line::End) | Err(RecvTimeoutError::Disconnected) => Err(self.ended(doing)),
        }
    }

    /// Its output has ended: it has, too, or will at once.
    fn ended(&mut self, doing: &str) -> PeerError {
        let deadline = Instant::now() + END;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return PeerError::Died { doing: doing.to_owned(), status },
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) | Err(_) => {
                    let _ = self.child.kill();
                    return nonsense(doing, "");
                }
            }
        }
    }
}

impl Drop for Sibling {
    fn drop(&mut self) {
        // Killed rather than asked: its libraries have been seen to hang at their end, and nothing of it is needed.
        self.requests = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn in_time(said: f64, waited: Duration, doing: &str) -> Result<f64, PeerError> {
    match waited.as_secs_f64() {
        waited if said > waited => Err(PeerError::Time { doing: doing.to_owned(), said, waited }),
        _ => Ok(said),
    }
}

fn nonsense(doing: &str, line: &str) -> PeerError {
    PeerError::Nonsense { doing: doing.to_owned(), line: line.chars().take(SHOWN).collect() }
}

/// Reads lines until they end, or until one is none. Nobody listening any more is an end, too.
fn read_lines(output: ChildStdout, sender: &SyncSender<Line>) {
    let mut output = BufReader::new(output);
    loop {
        let mut bytes = Vec::new();
        let read = output.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut bytes);
        let line = match read {
            Err(_) | Ok(0) => Line::End,
            Ok(_) => match String::from_utf8(bytes) {
                Ok(mut text) if text.ends_with('\n') => {
                    text.pop();
                    Line::Text(text)
                }
                Ok(text) => Line::Unreadable(text),
                Err(e) => Line::Unreadable(String::from_utf8_lossy(e.as_bytes()).into_owned()),
            },
        };
        let last = !matches!(line, Line::Text(_));
        if sender.send(line).is_err() || last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENT: Duration = Duration::from_secs(60);

    /// A peer that does what the script says.
    fn fake(script: &str, limit: Duration) -> Sibling {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        Sibling::start(command, limit).unwrap()
    }

    fn proof_line(seconds: f64) -> String {
        Reply::Proof { seconds, proof: std::array::from_fn(|i| i as u8) }.to_string()
    }

    #[test]
    fn lines_are_read_as_written() {
        let replies = [
            Reply::Ready { seconds: 1.5 },
            Reply::Proof { seconds: 0.000_123, proof: std::array::from_fn(|i| i as u8 ^ 0xf0) },
            Reply::Error("no device: at all".to_owned()),
        ];
        for reply in replies {
            let line = reply.to_string();
            assert!(line.len() < LONGEST_LINE);
            assert_eq!(line.parse(), Ok(reply), "{line}");
        }
        let long = Reply::Error("\n€".repeat(1000)).to_string();
        assert!(long.len() < LONGEST_LINE && !long.contains('\n'), "{long}");
        for memory in [Memory::Pageable, Memory::Pinned] {
            assert_eq!(wire::parse_request(&wire::request(memory)), Some(memory));
        }
        assert_eq!(wire::parse_request("prove"), None);
        let whole = proof_line(1.0);
        for line in [
            "",
            "ready",
            "ready soon",
            "ready -1",
            "ready 0",
            "ready NaN",
            "ready inf",
            "proof 1",
            "proof 1 00",
            &whole[..whole.len() - 2],
            &format!("{whole}00"),
            &whole.replace("0f", "0g"),
            &whole.replace("0f", "+f"),
            &whole.replace("0f", "é"),
            "hello there",
        ] {
            assert_eq!(line.parse::<Reply>(), Err(()), "{line}");
        }
    }

    #[test]
    fn a_conversation() {
        let line = proof_line(0.000_1);
        let script = format!(
            "sleep 0.01; echo ready 0.0001; read ask; [ \"$ask\" = 'prove pageable' ] && sleep 0.01 && echo {line}; \
             read ask; [ \"$ask\" = 'prove pinned' ] && sleep 0.01 && echo {line}; read ask"
        );
        let mut peer = fake(&script, PATIENT);
        assert_eq!(peer.ready().unwrap(), 0.000_1);
        for memory in [Memory::Pageable, Memory::Pinned] {
            let (seconds, proof) = peer.prove(memory).unwrap();
            assert_eq!((seconds, proof[191]), (0.000_1, 191));
        }
    }

    #[test]
    fn one_that_dies_is_named_with_its_status() {
        for (script, part) in
            [("exit 3", "exit status: 3"), ("kill -9 $$", "signal: 9"), ("exit 0", "exit status: 0")]
        {
            let error = fake(script, PATIENT).ready().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("read the key"), "{error}");
        }
        // While it was asked for a proof.
        let mut peer = fake("read ask; exit 7", PATIENT);
        let error = peer.prove(Memory::Pinned).unwrap_err().to_string();
        assert!(error.contains("prove pinned") && error.contains("exit status: 7"), "{error}");
        // Asked when it is already gone.
        let error = peer.prove(Memory::Pinned).unwrap_err().to_string();
        assert!(error.contains("exit status: 7"), "{error}");
    }

    #[test]
    fn one_that_hangs_is_stopped() {
        let start = Instant::now();
        let mut peer = fake("exec sleep 600", Duration::from_millis(200));
        let error = peer.ready().unwrap_err();
        assert!(matches!(error, PeerError::Hung { .. }), "{error}");
        assert!(error.to_string().contains("--peer-timeout"), "{error}");
        // One that closed its output and stays.
        let mut peer = fake("exec sleep 600 >&-", PATIENT);
        assert!(matches!(peer.ready(), Err(PeerError::Nonsense { .. })));
        drop(peer);
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn nonsense_is_named_and_not_believed() {
        let early = proof_line(0.1);
        for (script, part) in [
            ("echo hello there; read ask", "hello there"),
            ("echo; read ask", "\"\""),
            ("echo ready; read ask", "ready"),
            (&format!("echo {early}; read ask"), "proof 0.1"),
            ("echo ready 1e9; read ask", "1000000000 s"),
            ("yes x | tr -d '\\n'", "xxxx"),
            ("yes y", "\"y\""),
            ("printf '\\377\\376\\n'; read ask", "\u{fffd}"),
            ("printf 'ready 1'", "ready 1"),
        ] {
            let error = fake(script, PATIENT).ready().unwrap_err().to_string();
            assert!(error.contains(part) && error.len() < 300, "{script}: {error}");
        }
        let error = fake("echo error the disk is full; exit 1", PATIENT).ready().unwrap_err().to_string();
        assert_eq!(error, "the peer could not read the key and the circuit: the disk is full");
        // Ready again, where a proof was asked for.
        let error = fake("read ask; echo ready 0.001", PATIENT).prove(Memory::Pageable).unwrap_err();
        assert!(matches!(error, PeerError::Nonsense { .. }), "{error}");
    }
}
