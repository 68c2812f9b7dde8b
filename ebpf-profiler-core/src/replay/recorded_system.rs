//! Replays the answers of the recorded system.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::file::RecordedFile;
use super::incomplete::Incomplete;
use super::record::{Answer, Entry, Facts, Question};
use crate::elf::ReadAt;
use crate::language::{Journal, NamedCall, SampleId, ScriptCall};
use crate::process::{Description, Opener, System};
use crate::sample::{FileId, MapEvent};
use crate::symbol::Symbol;

/// The records of a recording beside its event stream.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) answers: Answers,
    pub(super) journal: RecordedJournal,
    pub(super) kernel: HashMap<u64, Vec<Symbol>>,
    /// Reason why the recording ends before the profiler did.
    pub(super) incomplete: Option<Incomplete>,
}

/// The answers to each question, in recorded order.
#[derive(Debug, Default)]
pub(super) struct Answers {
    answers: HashMap<Question, VecDeque<Answer>>,
    /// Facts of each file, for any process that maps it.
    files: HashMap<FileId, Facts>,
    image: Option<Arc<[u8]>>,
}

/// The recorded names of script functions, in the order in which each was read.
#[derive(Debug, Default)]
pub(super) struct RecordedJournal {
    scripts: RefCell<HashMap<ScriptCall, VecDeque<NamedCall>>>,
    prepared: BTreeSet<u32>,
    outdated: HashSet<SampleId>,
}

/// The recorded machine.
///
/// The same questions get the same answers: the first question of a kind gets the first answer, the
/// second the second, and so on. The last answer is repeated.
#[derive(Debug)]
pub(super) struct RecordedSystem {
    answers: RefCell<Answers>,
}

impl Index {
    pub(super) fn add(&mut self, entry: Entry) {
        match entry {
            Entry::Answer(question, answer) => {
                if let (Question::File(_, mapping), Answer::File(Some(facts))) = (&question, &answer) {
                    self.answers.insert_file(&mapping.file, facts);
                }
                self.answers.answers.entry(question).or_default().push_back(answer);
            }
            Entry::Image(image) => self.answers.image = Some(image.into()),
            Entry::Script(call, named) => {
                self.journal.scripts.get_mut().entry(call).or_default().push_back(named);
            }
            Entry::Prepared(pid) => {
                self.journal.prepared.insert(pid);
            }
            Entry::Outdated(sample) => {
                self.journal.outdated.insert(sample);
            }
            Entry::Kernel(address, functions) => {
                self.kernel.insert(address, functions);
            }
        }
    }
}

impl Answers {
    /// Inserts facts of a file under each identity that proves its contents.
    fn insert_file(&mut self, id: &FileId, facts: &Facts) {
        let build_id = facts.code.iter().filter(|code| !code.build_id.is_empty());
        let build_id = build_id.map(|code| FileId::BuildId(code.build_id.as_slice().into()));
        let is_proof = |id: &FileId| match id {
            FileId::Anonymous => false,
            FileId::BuildId(_) => facts.foreign.is_none(),
            _ => true,
        };
        for id in build_id.chain([id.clone()]).filter(is_proof) {
            self.files.entry(id).or_insert_with(|| facts.clone());
        }
    }
}

impl RecordedSystem {
    pub(super) fn new(answers: Answers) -> RecordedSystem {
        RecordedSystem { answers: RefCell::new(answers) }
    }

    /// Returns the next answer; `None` if the question was never recorded.
    fn ask(&self, question: &Question) -> Option<Answer> {
        let mut answers = self.answers.borrow_mut();
        next(answers.answers.get_mut(question)?)
    }

    /// Returns the facts of a file.
    ///
    /// The profiler opens a file once, for the first process that maps it. With languages, which
    /// are looked for in processes before their first sample, that process may be another one
    /// than in the replay.
    fn facts(&self, pid: u32, mapping: &MapEvent) -> Option<Facts> {
        match self.ask(&Question::File(pid, mapping.clone())) {
            Some(Answer::File(Some(facts))) => Some(facts),
            _ => self.answers.borrow().files.get(&mapping.file).cloned(),
        }
    }
}

impl System for RecordedSystem {
    fn processes(&self) -> Vec<u32> {
        match self.ask(&Question::Processes) {
            Some(Answer::Processes(pids)) => pids,
            _ => Vec::new(),
        }
    }

    fn mappings(&self, pid: u32) -> io::Result<Vec<MapEvent>> {
        match self.ask(&Question::Mappings(pid)) {
            Some(Answer::Mappings(Some(maps))) => Ok(maps),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn describe(&self, pid: u32) -> Description {
        match self.ask(&Question::Description(pid)) {
            Some(Answer::Description(description)) => description,
            _ => Description::default(),
        }
    }

    fn opener(&self, pid: u32, mapping: &MapEvent) -> Arc<dyn Opener> {
        let Some(facts) = self.facts(pid, mapping) else {
            return Arc::new(|| Err::<Box<dyn ReadAt>, _>(io::ErrorKind::NotFound.into()));
        };
        let image = match mapping.file {
            FileId::VDSO => self.answers.borrow().image.clone(),
            _ => None,
        };
        Arc::new(RecordedFile::new(&mapping.path, facts, image))
    }

    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let size = u32::try_from(buffer.len()).map_err(io::Error::other)?;
        match self.ask(&Question::Memory(pid, address, size)) {
            Some(Answer::Memory(Some(bytes))) if bytes.len() == buffer.len() => {
                buffer.copy_from_slice(&bytes);
                Ok(())
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Journal for RecordedJournal {
    fn recall(&self, call: &ScriptCall) -> Option<NamedCall> {
        next(self.scripts.borrow_mut().get_mut(call)?)
    }

    fn recall_prepared(&self) -> Option<Vec<u32>> {
        Some(self.prepared.iter().copied().collect())
    }

    fn recall_outdated(&self, sample: SampleId) -> Option<bool> {
        Some(self.outdated.contains(&sample))
    }
}

/// Returns the next of several items; the last one is repeated.
fn next<T: Clone>(left: &mut VecDeque<T>) -> Option<T> {
    if left.len() > 1 { left.pop_front() } else { left.front().cloned() }
}
