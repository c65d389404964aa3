//! Which sequence runs next, by how many blocks of keys and values there are.
//!
//! A sequence reserves room for all it may sample, so it never has to be thrown out half-way. What its
//! prompt begins with is held once for all sequences whose prompts begin so, running or waiting. Nothing
//! here knows tensors; the engine does what an [`Admission`] says.

use crate::prefixes::{PrefixTree, Split, Stretch, StretchId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A sequence, in the order of submission.
pub(crate) type Ticket = u64;

/// A sequence that may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    pub ticket: Ticket,
    /// What its prompt's prefix ends with; none where the prompt is one token.
    pub last: Option<StretchId>,
    /// What is not in memory and must be computed, in this order.
    pub compute: Vec<StretchId>,
}

struct Waiting {
    ticket: Ticket,
    prefix: Arc<[u32]>,
    last: Option<StretchId>,
    tail: usize,
}

struct Running {
    last: Option<StretchId>,
    tail: usize,
}

/// The queue and the accounts. All sizes are in blocks.
pub(crate) struct Scheduler {
    capacity: usize,
    max_running: usize,
    used: usize,
    running: HashMap<Ticket, Running>,
    queue: VecDeque<Waiting>,
    prefixes: PrefixTree,
    dropped: Vec<StretchId>,
}

impl Scheduler {
    /// * `capacity`: blocks there are
    /// * `block`: positions of a block
    pub fn new(capacity: usize, block: usize, max_running: usize) -> Self {
        Scheduler {
            capacity,
            max_running: max_running.max(1),
            used: 0,
            running: HashMap::new(),
            queue: VecDeque::new(),
            prefixes: PrefixTree::new(block),
            dropped: Vec::new(),
        }
    }

    /// Queues a sequence that must fit alone: the blocks of its prefix and `tail` for its own part. A split of a resident
    /// stretch is to be done to its keys and values too.
    pub fn submit(&mut self, ticket: Ticket, prefix: Arc<[u32]>, tail: usize) -> Option<Split> {
        let (last, split) = self.prefixes.insert(&prefix);
        self.each(last, |stretch| stretch.waiting += 1);
        self.queue.push_back(Waiting { ticket, prefix, last, tail });
        split.filter(|s| self.prefixes.get(s.first).is_some_and(|s| s.resident))
    }

    fn each(&mut self, last: Option<StretchId>, change: impl Fn(&mut Stretch)) {
        for id in self.prefixes.path(last) {
            if let Some(stretch) = self.prefixes.get_mut(id) {
                change(stretch);
            }
        }
    }

    /// Lets sequences start, first come first served, as long as there is room and no more than `prompt_tokens` are to be
    /// computed; more only for the first.
    pub fn admit(&mut self, prompt_tokens: usize) -> Vec<Admission> {
        let mut admitted = Vec::new();
        let mut tokens = 0;
        while let Some(next) = self.queue.front() {
            let (ticket, last, tail) = (next.ticket, next.last, next.tail);
            let path = self.prefixes.path(last);
            let absent = |id: &StretchId| self.prefixes.get(*id).is_some_and(|s| !s.resident);
            let compute: Vec<StretchId> = path.iter().copied().filter(absent).collect();
            let length = |id: &StretchId| self.prefixes.get(*id).map_or(0, |s| s.tokens.len());
            let more: usize = compute.iter().map(length).sum();
            if self.running.len() >= self.max_running || (tokens > 0 && tokens + more > prompt_tokens) {
                break;
            }
            let need = tail + compute.iter().map(|id| self.prefixes.blocks(*id)).sum::<usize>();
            if self.used + need > self.capacity && !(self.running.is_empty() && self.evict(&path, need)) {
                break;
            }
            self.queue.pop_front();
            self.each(last, |stretch| {
                stretch.resident = true;
                stretch.waiting -= 1;
                stretch.running += 1;
            });
            tokens += more;
            self.used += need;
            self.running.insert(ticket, Running { last, tail });
            admitted.push(Admission { ticket, last, compute });
        }
        admitted
    }

    /// Gives up stretches that only waiting sequences hold, other than those of `keep`, until `need` blocks fit: without it,
    /// prefixes of sequences far back in the queue could keep the first one from ever starting.
    fn evict(&mut self, keep: &[StretchId], need: usize) -> bool {
        let idle = |id: &StretchId| self.prefixes.get(*id).is_some_and(|s| s.resident && s.running == 0);
        let mut idle: Vec<StretchId> =
            self.prefixes.ids().filter(|id| !keep.contains(id) && idle(id)).collect();
        // What is last in its prompt goes first: nothing in memory may lack what comes before it.
        idle.sort_unstable_by_key(|id| (self.prefixes.path(Some(*id)).len(), *id));
        while self.used + need > self.capacity {
            let Some(id) = idle.pop() else { return false };
            if let Some(stretch) = self.prefixes.get_mut(id) {
                stretch.resident = false;
            }
            self.used -= self.prefixes.blocks(id);
            self.dropped.push(id);
        }
        true
    }

    /// A running sequence has ended, or a waiting one is withdrawn.
    pub fn finish(&mut self, ticket: Ticket) {
        if let Some(running) = self.running.remove(&ticket) {
            self.used -= running.tail;
            self.each(running.last, |stretch| stretch.running -= 1);
            self.release_unused(running.last);
        } else if let Some(at) = self.queue.iter().position(|w| w.ticket == ticket)
            && let Some(waiting) = self.queue.remove(at)
        {
            self.each(waiting.last, |stretch| stretch.waiting -= 1);
            self.release_unused(waiting.last);
        }
    }

    fn release_unused(&mut self, last: Option<StretchId>) {
        for id in self.prefixes.path(last).into_iter().rev() {
            if self.prefixes.get(id).is_none_or(|s| s.waiting + s.running > 0) {
                continue;
            }
            let blocks = self.prefixes.blocks(id);
            if self.prefixes.remove(id).is_some_and(|s| s.resident) {
                self.used -= blocks;
                self.dropped.push(id);
            }
        }
    }

    /// What is in memory is not for who comes or waits, because the weights have changed or computing it failed; who runs
    /// keeps it.
    pub fn forget_prefixes(&mut self) {
        self.prefixes.forget();
        let mut queue = std::mem::take(&mut self.queue);
        for waiting in &mut queue {
            let old = waiting.last;
            // Nothing found here is resident, so there are no keys and values to split.
            waiting.last = self.prefixes.insert(&waiting.prefix).0;
            self.each(waiting.last, |stretch| stretch.waiting += 1);
            self.each(old, |stretch| stretch.waiting -= 1);
            self.release_unused(old);
        }
        self.queue = queue;
    }

    /// Stretches whose memory is free again, since the last call.
    pub fn take_dropped(&mut self) -> Vec<StretchId> {
        std::mem::take(&mut self.dropped)
    }

    /// The stretches of a prompt's prefix, in order.
    pub fn path(&self, last: Option<StretchId>) -> Vec<StretchId> {
        self.prefixes.path(last)
    }

    /// A stretch's tokens and what comes before it.
    pub fn stretch(&self, id: StretchId) -> Option<(Arc<[u32]>, Option<StretchId>)> {
        self.prefixes.get(id).map(|s| (s.tokens.clone(), s.parent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MANY: usize = usize::MAX;

    /// A prefix of `n` tokens, blocks of one token.
    fn prefix(i: u32, n: usize) -> Arc<[u32]> {
        vec![i; n].into()
    }

    fn tickets(admitted: &[Admission]) -> Vec<Ticket> {
        admitted.iter().map(|a| a.ticket).collect()
    }

    #[test]
    fn a_prefix_is_computed_once_and_kept_while_anyone_needs_it() {
        let mut s = Scheduler::new(10, 1, 8);
        for ticket in 0..3 {
            s.submit(ticket, prefix(1, 4), 3);
        }
        let first = s.admit(MANY);
        assert_eq!(first.iter().map(|a| a.compute.len()).collect::<Vec<_>>(), [1, 0]);
        s.finish(0);
        s.finish(1);
        assert!(s.take_dropped().is_empty());
        let second = s.admit(MANY);
        assert_eq!(second, [Admission { ticket: 2, last: first[0].last, compute: vec![] }]);
        s.finish(2);
        assert_eq!(s.take_dropped(), first[0].compute);
        assert_eq!(s.used, 0);
    }

    #[test]
    fn what_two_prompts_begin_with_is_counted_once_and_outlives_the_first() {
        let mut s = Scheduler::new(10, 1, 8);
        assert_eq!(s.submit(0, vec![1, 1, 1, 1, 2, 2].into(), 1), None);
        let first = s.admit(MANY);
        let split = s.submit(1, vec![1, 1, 1, 1, 3].into(), 1).expect("the resident stretch is cut in two");
        assert_eq!((split.from, split.tokens), (first[0].compute[0], 4));
        let second = s.admit(MANY);
        assert_eq!(s.used, 4 + (2 + 1) + (1 + 1));
        assert_eq!(s.path(second[0].last), [split.first, second[0].compute[0]]);
        assert_eq!(s.path(first[0].last), [split.first, split.from]);
        s.finish(0);
        assert_eq!((s.take_dropped(), s.used), (vec![split.from], 6));
        s.finish(1);
        assert_eq!((s.take_dropped(), s.used), (vec![second[0].compute[0], split.first], 0));
    }

    #[test]
    fn one_step_computes_a_bounded_number_of_prompt_tokens_or_one_prompt() {
        let mut s = Scheduler::new(1000, 1, 100);
        for ticket in 0..6 {
            s.submit(ticket, prefix(ticket as u32, if ticket == 3 { 50 } else { 10 }), 1);
        }
        s.submit(6, prefix(5, 10), 1);
        let steps: Vec<_> = (0..4).map(|_| tickets(&s.admit(20))).collect();
        assert_eq!(steps, [vec![0, 1], vec![2], vec![3], vec![4, 5, 6]]);
    }

    #[test]
    fn idle_prefixes_give_way_to_the_first_in_the_queue() {
        let mut s = Scheduler::new(10, 1, 1);
        s.submit(0, prefix(1, 5), 1);
        s.submit(1, prefix(2, 5), 5);
        s.submit(2, prefix(1, 5), 1);
        assert_eq!(tickets(&s.admit(MANY)), [0]);
        s.finish(0);
        // The prefix of 2 is in memory and in the way of 1.
        assert_eq!(tickets(&s.admit(MANY)), [1]);
        assert_eq!(s.take_dropped().len(), 1);
        s.finish(1);
        let last = s.admit(MANY);
        assert!(last[0].compute.len() == 1 && last[0].ticket == 2);
    }

    #[test]
    fn new_weights_mean_new_prefixes_for_who_waits() {
        let mut s = Scheduler::new(10, 1, 1);
        s.submit(0, prefix(1, 2), 2);
        s.submit(1, prefix(1, 2), 2);
        let first = s.admit(MANY);
        s.forget_prefixes();
        s.submit(2, prefix(1, 2), 2);
        assert!(s.take_dropped().is_empty(), "the running sequence still reads the old prefix");
        s.finish(0);
        assert_eq!(s.take_dropped(), first[0].compute);
        let second = s.admit(MANY);
        assert!(second[0].compute.len() == 1 && second[0].last != first[0].last);
        s.finish(1);
        assert_eq!(s.admit(MANY), [Admission { ticket: 2, last: second[0].last, compute: vec![] }]);
    }

    #[test]
    fn a_withdrawn_sequence_leaves_nothing_behind() {
        let mut s = Scheduler::new(10, 1, 1);
        s.submit(0, prefix(1, 2), 2);
        s.submit(1, prefix(2, 2), 2);
        s.admit(MANY);
        s.finish(1);
        s.finish(0);
        assert!(s.admit(MANY).is_empty() && s.prefixes.is_empty() && s.used == 0);
    }

    /// What happens to a scheduler.
    #[derive(Clone, Debug)]
    enum Event {
        Submit(Vec<u32>, usize),
        Admit,
        Finish(usize),
        Forget,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            4 => (prop::collection::vec(0u32..2, 0..8), 1usize..5).prop_map(|(p, n)| Event::Submit(p, n)),
            3 => Just(Event::Admit),
            3 => any::<usize>().prop_map(Event::Finish),
            1 => Just(Event::Forget),
        ]
    }

    proptest! {
        #[test]
        fn for_every_history_the_accounts_are_right_and_all_run_in_the_end(
            events in prop::collection::vec(event(), 1..60),
        ) {
            let (capacity, block) = (12, 2);
            let mut s = Scheduler::new(capacity, block, 3);
            // Blocks in memory, as the engine would hold them, and the sequences that wait or run.
            let mut memory: HashMap<StretchId, usize> = HashMap::new();
            let mut open: Vec<Ticket> = Vec::new();
            let drain = std::iter::repeat_n([Event::Admit, Event::Finish(0)], events.len()).flatten();
            let (events, free) = (events.iter().cloned().chain(drain), events.len());
            for (ticket, event) in events.enumerate() {
                match event {
                    Event::Submit(prefix, tail) => {
                        open.push(ticket as Ticket);
                        if let Some(split) = s.submit(ticket as Ticket, prefix.into(), tail) {
                            *memory.get_mut(&split.from).expect("a resident stretch") -= split.tokens / block;
                            memory.insert(split.first, split.tokens / block);
                        }
                    }
                    Event::Admit => {
                        let admitted = s.admit(6);
                        for id in s.take_dropped() {
                            prop_assert!(memory.remove(&id).is_some());
                        }
                        for admission in &admitted {
                            for id in &admission.compute {
                                let (tokens, parent) = s.stretch(*id).expect("a stretch");
                                prop_assert!(parent.is_none_or(|p| memory.contains_key(&p)));
                                prop_assert_eq!(memory.insert(*id, tokens.len().div_ceil(block)), None);
                            }
                            prop_assert!(s.path(admission.last).iter().all(|id| memory.contains_key(id)));
                        }
                    }
                    Event::Finish(_) if open.is_empty() => {}
                    Event::Finish(which) => {
                        let oldest = open.remove(which % open.len());
                        prop_assert!(ticket < free || s.running.contains_key(&oldest));
                        s.finish(oldest);
                    }
                    Event::Forget => s.forget_prefixes(),
                }
                for id in s.take_dropped() {
                    prop_assert!(memory.remove(&id).is_some());
                }
                let tails: usize = s.running.values().map(|r| r.tail).sum();
                prop_assert_eq!(s.used, tails + memory.values().sum::<usize>());
                prop_assert!(s.used <= capacity && s.running.len() <= 3);
            }
            prop_assert!(open.is_empty() && s.prefixes.is_empty() && s.used == 0);
        }
    }
}
