//! Which sequence runs next, by how many blocks of keys and values there are.
//!
//! A sequence reserves room for all it may sample, so it never has to be thrown out half-way. The
//! prefix of a prompt is held once for all sequences that have it, running or waiting. Nothing here
//! knows tensors; the engine does what an [`Admission`] says.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A sequence, in the order of submission.
pub(crate) type Ticket = u64;
/// A prompt's prefix under one version of the weights.
pub(crate) type PrefixId = u64;

/// A sequence that may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    pub ticket: Ticket,
    pub prefix: PrefixId,
    /// The prefix is not in memory and must be computed.
    pub compute: bool,
}

struct Waiting {
    ticket: Ticket,
    prefix: PrefixId,
    tail: usize,
}

struct Prefix {
    tokens: Arc<[u32]>,
    blocks: usize,
    waiting: usize,
    running: usize,
    resident: bool,
}

/// The queue and the accounts. All sizes are in blocks.
pub(crate) struct Scheduler {
    capacity: usize,
    max_running: usize,
    used: usize,
    running: HashMap<Ticket, (PrefixId, usize)>,
    queue: VecDeque<Waiting>,
    prefixes: HashMap<PrefixId, Prefix>,
    by_tokens: HashMap<Arc<[u32]>, PrefixId>,
    next_prefix: PrefixId,
    dropped: Vec<PrefixId>,
}

impl Scheduler {
    pub fn new(capacity: usize, max_running: usize) -> Self {
        Scheduler {
            capacity,
            max_running: max_running.max(1),
            used: 0,
            running: HashMap::new(),
            queue: VecDeque::new(),
            prefixes: HashMap::new(),
            by_tokens: HashMap::new(),
            next_prefix: 0,
            dropped: Vec::new(),
        }
    }

    /// Queues a sequence that must fit alone: `prefix_blocks + tail <= capacity`.
    pub fn submit(&mut self, ticket: Ticket, prefix: &Arc<[u32]>, prefix_blocks: usize, tail: usize) {
        debug_assert!(prefix_blocks + tail <= self.capacity);
        let id = match self.by_tokens.get(prefix) {
            Some(id) => *id,
            None => self.insert_prefix(prefix.clone(), prefix_blocks),
        };
        if let Some(entry) = self.prefixes.get_mut(&id) {
            entry.waiting += 1;
        }
        self.queue.push_back(Waiting { ticket, prefix: id, tail });
    }

    fn insert_prefix(&mut self, tokens: Arc<[u32]>, blocks: usize) -> PrefixId {
        let id = self.next_prefix;
        self.next_prefix += 1;
        self.by_tokens.insert(tokens.clone(), id);
        self.prefixes.insert(id, Prefix { tokens, blocks, waiting: 0, running: 0, resident: false });
        id
    }

    /// Lets sequences start, first come first served, as long as there is room.
    pub fn admit(&mut self) -> Vec<Admission> {
        let mut admitted = Vec::new();
        while let Some(next) = self.queue.front() {
            if self.running.len() >= self.max_running {
                break;
            }
            let Some(prefix) = self.prefixes.get(&next.prefix) else { break };
            let need = next.tail + if prefix.resident { 0 } else { prefix.blocks };
            let keep = next.prefix;
            if self.used + need > self.capacity && !(self.running.is_empty() && self.evict(keep, need)) {
                break;
            }
            let Some(next) = self.queue.pop_front() else { break };
            let Some(prefix) = self.prefixes.get_mut(&next.prefix) else { break };
            admitted.push(Admission { ticket: next.ticket, prefix: next.prefix, compute: !prefix.resident });
            prefix.resident = true;
            prefix.waiting -= 1;
            prefix.running += 1;
            self.used += need;
            self.running.insert(next.ticket, (next.prefix, next.tail));
        }
        admitted
    }

    /// Gives up prefixes that only waiting sequences hold, other than `keep`, until `need` blocks fit: without it, prefixes
    /// of sequences far back in the queue could keep the first one from ever starting.
    fn evict(&mut self, keep: PrefixId, need: usize) -> bool {
        let mut idle: Vec<PrefixId> = self
            .prefixes
            .iter()
            .filter(|(id, p)| **id != keep && p.resident && p.running == 0)
            .map(|(id, _)| *id)
            .collect();
        idle.sort_unstable();
        while self.used + need > self.capacity {
            let Some(prefix) = idle.pop().and_then(|id| self.prefixes.get_mut(&id).map(|p| (id, p))) else {
                return false;
            };
            prefix.1.resident = false;
            self.used -= prefix.1.blocks;
            self.dropped.push(prefix.0);
        }
        true
    }

    /// A running sequence has ended, or a waiting one is withdrawn.
    pub fn finish(&mut self, ticket: Ticket) {
        let id = if let Some((prefix, tail)) = self.running.remove(&ticket) {
            self.used -= tail;
            if let Some(p) = self.prefixes.get_mut(&prefix) {
                p.running -= 1;
            }
            prefix
        } else if let Some(at) = self.queue.iter().position(|w| w.ticket == ticket) {
            let Some(waiting) = self.queue.remove(at) else { return };
            if let Some(p) = self.prefixes.get_mut(&waiting.prefix) {
                p.waiting -= 1;
            }
            waiting.prefix
        } else {
            return;
        };
        self.release_unused(id);
    }

    fn release_unused(&mut self, id: PrefixId) {
        let Some(prefix) = self.prefixes.get(&id) else { return };
        if prefix.waiting + prefix.running > 0 {
            return;
        }
        if prefix.resident {
            self.used -= prefix.blocks;
            self.dropped.push(id);
        }
        if self.by_tokens.get(&prefix.tokens) == Some(&id) {
            let tokens = prefix.tokens.clone();
            self.by_tokens.remove(&tokens);
        }
        self.prefixes.remove(&id);
    }

    /// The weights have changed: who waits gets a prefix computed anew; who runs keeps the old one.
    pub fn forget_prefixes(&mut self) {
        let old: Vec<PrefixId> =
            self.prefixes.iter().filter(|(_, p)| p.resident).map(|(id, _)| *id).collect();
        for id in old {
            let Some(entry) = self.prefixes.get_mut(&id) else { continue };
            let waiting = std::mem::take(&mut entry.waiting);
            let (tokens, blocks) = (entry.tokens.clone(), entry.blocks);
            self.by_tokens.remove(&tokens);
            if waiting > 0 {
                let fresh = self.insert_prefix(tokens, blocks);
                if let Some(entry) = self.prefixes.get_mut(&fresh) {
                    entry.waiting = waiting;
                }
                for w in self.queue.iter_mut().filter(|w| w.prefix == id) {
                    w.prefix = fresh;
                }
            }
            self.release_unused(id);
        }
    }

    /// Prefixes whose memory is free again, since the last call.
    pub fn take_dropped(&mut self) -> Vec<PrefixId> {
        std::mem::take(&mut self.dropped)
    }

    /// The tokens of a prefix.
    pub fn prefix_tokens(&self, id: PrefixId) -> Option<Arc<[u32]>> {
        self.prefixes.get(&id).map(|p| p.tokens.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(i: u32) -> Arc<[u32]> {
        vec![i].into()
    }

    fn tickets(admitted: &[Admission]) -> Vec<Ticket> {
        admitted.iter().map(|a| a.ticket).collect()
    }

    #[test]
    fn a_prefix_is_computed_once_and_kept_while_anyone_needs_it() {
        let mut s = Scheduler::new(10, 8);
        for ticket in 0..3 {
            s.submit(ticket, &prompt(1), 4, 3);
        }
        let first = s.admit();
        assert_eq!(first.iter().map(|a| a.compute).collect::<Vec<_>>(), [true, false]);
        s.finish(0);
        s.finish(1);
        assert!(s.take_dropped().is_empty());
        let second = s.admit();
        assert_eq!(second, [Admission { ticket: 2, prefix: first[0].prefix, compute: false }]);
        s.finish(2);
        assert_eq!(s.take_dropped(), [first[0].prefix]);
        assert_eq!(s.used, 0);
    }

    #[test]
    fn no_more_run_than_room_and_slots_allow_and_all_run_in_the_end() {
        let mut s = Scheduler::new(12, 3);
        for ticket in 0..20 {
            s.submit(ticket, &prompt((ticket % 5) as u32), 3, 1 + ticket as usize % 4);
        }
        let mut done = Vec::new();
        while done.len() < 20 {
            let admitted = s.admit();
            assert!(s.used <= 12 && s.running.len() <= 3);
            done.extend(tickets(&admitted));
            let first = *s.running.keys().min().expect("someone runs");
            s.finish(first);
        }
        assert_eq!(done, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn idle_prefixes_give_way_to_the_first_in_the_queue() {
        let mut s = Scheduler::new(10, 1);
        s.submit(0, &prompt(1), 5, 1);
        s.submit(1, &prompt(2), 5, 5);
        s.submit(2, &prompt(1), 5, 1);
        assert_eq!(tickets(&s.admit()), [0]);
        s.finish(0);
        // The prefix of 2 is in memory and in the way of 1.
        assert_eq!(tickets(&s.admit()), [1]);
        assert_eq!(s.take_dropped().len(), 1);
        s.finish(1);
        let last = s.admit();
        assert!(last[0].compute && last[0].ticket == 2);
    }

    #[test]
    fn new_weights_mean_new_prefixes_for_who_waits() {
        let mut s = Scheduler::new(10, 1);
        s.submit(0, &prompt(1), 2, 2);
        s.submit(1, &prompt(1), 2, 2);
        let first = s.admit();
        s.forget_prefixes();
        s.submit(2, &prompt(1), 2, 2);
        assert!(s.take_dropped().is_empty(), "the running sequence still reads the old prefix");
        s.finish(0);
        assert_eq!(s.take_dropped(), [first[0].prefix]);
        let second = s.admit();
        assert!(second[0].compute && second[0].prefix != first[0].prefix);
        s.finish(1);
        assert_eq!(s.admit(), [Admission { ticket: 2, prefix: second[0].prefix, compute: false }]);
    }

    #[test]
    fn a_withdrawn_sequence_leaves_nothing_behind() {
        let mut s = Scheduler::new(10, 1);
        s.submit(0, &prompt(1), 2, 2);
        s.submit(1, &prompt(2), 2, 2);
        s.admit();
        s.finish(1);
        s.finish(0);
        assert!(s.admit().is_empty() && s.prefixes.is_empty() && s.by_tokens.is_empty() && s.used == 0);
    }
}
