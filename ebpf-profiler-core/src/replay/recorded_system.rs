//! Answers as the recorded system did.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use hashbrown::HashMap;

use super::file::RecordedFile;
use super::record::{Answer, Facts, Known, Question};
use crate::elf::ReadAt;
use crate::language::{Journal, NamedCall, ScriptCall};
use crate::process::{Description, Opener, System};
use crate::sample::{FileId, MapEvent};
use crate::symbol::Symbol;

/// What a recording says besides its stream of events.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    pub(super) answers: Answers,
    pub(super) journal: RecordedJournal,
    pub(super) kernel: HashMap<u64, Vec<Symbol>>,
    /// Whether the profiler went on without the recording.
    pub(super) is_early: bool,
}

/// The answers to each question, in their order.
#[derive(Debug, Default)]
pub(super) struct Answers {
    answers: HashMap<Question, VecDeque<Answer>>,
    /// What was found of each file, whichever process it was that had it opened.
    files: HashMap<FileId, Facts>,
    image: Option<Arc<[u8]>>,
}

/// The recorded names of script functions, in the order in which each was read.
#[derive(Debug, Default)]
pub(super) struct RecordedJournal {
    scripts: RefCell<HashMap<ScriptCall, VecDeque<NamedCall>>>,
    prepared: BTreeSet<u32>,
}

/// The machine that was recorded.
///
/// Who asks the same as the first time gets the same answers: the first question of a kind the first answer,
/// the second the second. The last answer stays.
#[derive(Debug)]
pub(super) struct RecordedSystem {
    answers: RefCell<Answers>,
}

impl Knowledge {
    pub(super) fn add(&mut self, known: Known) {
        match known {
            Known::Answer(question, answer) => {
                if let (Question::File(_, mapping), Answer::File(Some(facts))) = (&question, &answer) {
                    self.answers.meet(&mapping.file, facts);
                }
                self.answers.answers.entry(question).or_default().push_back(answer);
            }
            Known::Image(image) => self.answers.image = Some(image.into()),
            Known::Script(call, named) => {
                self.journal.scripts.get_mut().entry(call).or_default().push_back(named);
            }
            Known::Prepared(pid) => {
                self.journal.prepared.insert(pid);
            }
            Known::Kernel(address, functions) => {
                self.kernel.insert(address, functions);
            }
        }
    }
}

impl Answers {
    /// A file goes by each of its identities.
    fn meet(&mut self, id: &FileId, facts: &Facts) {
        let build_id = facts.code.iter().filter(|code| !code.build_id.is_empty());
        let build_id = build_id.map(|code| FileId::BuildId(code.build_id.as_slice().into()));
        for id in build_id.chain((*id != FileId::Anonymous).then(|| id.clone())) {
            self.files.entry(id).or_insert_with(|| facts.clone());
        }
    }
}

impl RecordedSystem {
    pub(super) fn new(answers: Answers) -> RecordedSystem {
        RecordedSystem { answers: RefCell::new(answers) }
    }

    /// The next answer; none where it was never asked.
    fn ask(&self, question: &Question) -> Option<Answer> {
        let mut answers = self.answers.borrow_mut();
        next(answers.answers.get_mut(question)?)
    }

    /// What was found of a file.
    ///
    /// The profiler opens a file once, for the process that it meets first. That needn't be the first one here: who
    /// has languages looks into many processes before the first tick.
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

    fn recall_prepared(&self) -> Vec<u32> {
        self.prepared.iter().copied().collect()
    }
}

/// The next of several; the last one stays.
fn next<T: Clone>(left: &mut VecDeque<T>) -> Option<T> {
    if left.len() > 1 { left.pop_front() } else { left.front().cloned() }
}
