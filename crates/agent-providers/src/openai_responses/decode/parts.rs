//! The texts of an item: which block each piece and each whole text belongs to.
//!
//! Vendors number the parts of an item, but not alike: some count from 1, some count on with every delta, and some give a
//! whole part another number than its pieces. So a number alone begins no block. A piece continues the open part unless the
//! server has announced or ended one, and a whole text is compared with what has been emitted.

use crate::openai_responses::wire::Part;

/// The texts of an item, in the order of their first pieces.
#[derive(Debug, Default)]
pub(super) struct Parts {
    blocks: Vec<Block>,
    /// The number of parts that the server has announced for the summary and for the content.
    announced: [usize; 2],
}

/// A text of an item, which is one block.
#[derive(Debug)]
pub(super) struct Block {
    list: List,
    /// The number of the first piece.
    at: u64,
    /// The number of the last piece.
    last: u64,
    pub(super) index: u32,
    said: Said,
    /// Whether the whole text has been received.
    whole: bool,
}

/// The list of an item that contains a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Summary,
    Content,
}

impl List {
    fn slot(self) -> usize {
        match self {
            Self::Summary => 0,
            Self::Content => 1,
        }
    }
}

/// The part of a text that has been emitted: its length, and a hash to check that a longer text begins with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    len: usize,
    hash: u64,
}

impl Default for Said {
    fn default() -> Self {
        Self { len: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Said {
    pub(super) fn push(&mut self, text: &str) {
        self.len = self.len.saturating_add(text.len());
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether the emitted text is this one.
    pub(super) fn is(&self, text: &str) -> bool {
        self.rest(text).is_some_and(str::is_empty)
    }

    /// Returns what follows the emitted text in `whole`, or `None` if it begins differently.
    pub(super) fn rest<'t>(&self, whole: &'t str) -> Option<&'t str> {
        let (head, rest) = whole.split_at_checked(self.len)?;
        let mut said = Self::default();
        said.push(head);
        (said.hash == self.hash).then_some(rest)
    }
}

/// The place of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// It belongs to the block at this position.
    Of(usize),
    /// It begins a block.
    New,
}

impl Parts {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn blocks(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.blocks.iter()
    }

    /// Records that the server has announced a part.
    pub(super) fn announce(&mut self, list: List) {
        if let Some(count) = self.announced.get_mut(list.slot()) {
            *count = count.saturating_add(1);
        }
    }

    /// Begins a block and returns its position.
    pub(super) fn open(&mut self, list: List, at: u64, index: u32) -> usize {
        self.blocks.push(Block { list, at, last: at, index, said: Said::default(), whole: false });
        self.blocks.len() - 1
    }

    /// Records a piece of the block at this position and returns its index. Returns `None` if there is no such block.
    pub(super) fn push(&mut self, place: usize, text: &str) -> Option<u32> {
        let block = self.blocks.get_mut(place)?;
        block.said.push(text);
        Some(block.index)
    }

    /// Records that the whole text of the block at this position has been received.
    pub(super) fn end(&mut self, place: usize) {
        if let Some(block) = self.blocks.get_mut(place) {
            block.whole = true;
        }
    }

    /// Returns the place of a piece with this number.
    pub(super) fn slot(&mut self, list: List, at: u64) -> Slot {
        let awaited = self.is_awaited(list);
        let named = self.named(list, at).filter(|block| !(awaited && self.is_whole(*block)));
        let place = named.or_else(|| {
            let last = self.last(list).filter(|block| !awaited && !self.is_whole(*block));
            // Parts of a summary are numbered reliably, and some relays leave out their announcements.
            last.filter(|_| list == List::Content || self.is_announced(list))
        });
        match place.and_then(|place| Some((place, self.blocks.get_mut(place)?))) {
            Some((place, block)) => {
                block.last = at;
                Slot::Of(place)
            }
            None => Slot::New,
        }
    }

    /// Returns the place of a whole text and the rest of it that has not been emitted. Returns `None` if it has been
    /// emitted, or if it is another version of an emitted text; the end of the item contains the parts again.
    pub(super) fn whole<'t>(&mut self, list: List, at: u64, text: &'t str) -> Option<(Slot, &'t str)> {
        let awaited = self.is_awaited(list);
        let named = self.named(list, at);
        let rest = |block: &Block| block.said.rest(text);
        let same = named.and_then(|place| Some((place, rest(self.blocks.get(place)?)?)));
        let found = same.or_else(|| {
            let others = self.blocks.iter().enumerate().rev().filter(|(_, block)| block.list == list);
            let mut others = others.filter(|_| !awaited).filter_map(|(n, b)| Some((n, b.whole, rest(b)?)));
            // An ended text is the same one only if nothing is missing.
            others.find(|(_, whole, rest)| !whole || rest.is_empty()).map(|(place, _, rest)| (place, rest))
        });
        if let Some((place, rest)) = found {
            if let Some(block) = self.blocks.get_mut(place) {
                block.whole = true;
                block.last = at;
            }
            return (!rest.is_empty()).then_some((Slot::Of(place), rest));
        }
        let next = self.blocks.iter().filter(|block| block.list == list).all(|block| block.last < at);
        let ended = self.last(list).is_none_or(|block| self.is_whole(block));
        let new = named.is_none() && (awaited || (next && ended));
        new.then_some((Slot::New, text))
    }

    /// Returns what the whole parts of a list contain beyond the emitted text, in order: the rest of the last block, then new
    /// blocks.
    pub(super) fn rests<'p>(&self, list: List, parts: &'p [Part<'_>]) -> Vec<(Slot, &'p str)> {
        let whole: Vec<&str> = parts.iter().filter_map(|part| part.text.filled()).collect();
        let places = self.ordered(list);
        let joined: String = whole.concat();
        let mut left = joined.as_str();
        for place in &places {
            match self.blocks.get(*place).and_then(|block| block.said.rest(left)) {
                Some(rest) => left = rest,
                None => return self.rests_apart(&places, &whole),
            }
        }
        let mut emitted = joined.len() - left.len();
        let mut rests = Vec::new();
        for text in whole {
            let (head, rest) = text.split_at_checked(emitted.min(text.len())).unwrap_or((text, ""));
            emitted -= head.len();
            if !rest.is_empty() {
                let last = places.last().filter(|_| !head.is_empty());
                rests.push((last.map_or(Slot::New, |place| Slot::Of(*place)), rest));
            }
        }
        rests
    }

    /// The same for parts of which some differ from the emitted texts: each is compared with the block in its place.
    fn rests_apart<'p>(&self, places: &[usize], whole: &[&'p str]) -> Vec<(Slot, &'p str)> {
        let pair = |(n, text): (usize, &&'p str)| match places.get(n) {
            Some(place) => {
                let rest = self.blocks.get(*place)?.said.rest(text)?;
                (!rest.is_empty()).then_some((Slot::Of(*place), rest))
            }
            None => Some((Slot::New, *text)),
        };
        whole.iter().enumerate().filter_map(pair).collect()
    }

    /// Returns the texts of the blocks, in their order, as the whole parts of the summary and of the content have them. A
    /// text that differs from the emitted one is returned as empty.
    pub(super) fn texts<'p>(&self, summary: &'p [Part<'_>], content: &'p [Part<'_>]) -> Vec<&'p str> {
        let text = |(n, block): (usize, &Block)| {
            let parts = match block.list {
                List::Summary => summary,
                List::Content => content,
            };
            let rank = self.ordered(block.list).iter().position(|place| *place == n)?;
            let text = parts.iter().filter_map(|part| part.text.filled()).nth(rank)?;
            block.said.rest(text).filter(|rest| rest.is_empty()).map(|_| text)
        };
        self.blocks.iter().enumerate().map(|block| text(block).unwrap_or_default()).collect()
    }

    /// Returns the blocks of the content, in order, each with the part of the complete item that it contains. If the server
    /// joins or splits parts, the last block has the rest of them.
    pub(super) fn with_parts<'p, 'a>(&self, content: &'p [Part<'a>]) -> Vec<(u32, &'p Part<'a>)> {
        let blocks: Vec<u32> = self
            .ordered(List::Content)
            .iter()
            .filter_map(|place| Some(self.blocks.get(*place)?.index))
            .collect();
        let parts = content.iter().filter(|part| part.text.filled().is_some());
        let block = |n: usize| blocks.get(n).or(blocks.last()).copied();
        parts.enumerate().filter_map(|(n, part)| Some((block(n)?, part))).collect()
    }

    /// Returns a number for a block after all others of the list.
    pub(super) fn next_at(&self, list: List) -> u64 {
        let ats = self.blocks.iter().filter(|block| block.list == list).map(|block| block.last);
        ats.max().map_or(0, |at| at.saturating_add(1))
    }

    /// Returns the positions of the blocks of a list in the order of their numbers.
    fn ordered(&self, list: List) -> Vec<usize> {
        let blocks = self.blocks.iter().enumerate().filter(|(_, block)| block.list == list);
        let mut places: Vec<(u64, usize)> = blocks.map(|(place, block)| (block.at, place)).collect();
        places.sort_unstable();
        places.into_iter().map(|(_, place)| place).collect()
    }

    fn named(&self, list: List, at: u64) -> Option<usize> {
        self.blocks.iter().position(|block| block.list == list && block.at == at)
    }

    fn last(&self, list: List) -> Option<usize> {
        self.blocks.iter().rposition(|block| block.list == list)
    }

    fn is_whole(&self, place: usize) -> bool {
        self.blocks.get(place).is_some_and(|block| block.whole)
    }

    fn is_announced(&self, list: List) -> bool {
        self.announced.get(list.slot()).is_some_and(|count| *count > 0)
    }

    /// Returns whether an announced part has no block yet.
    fn is_awaited(&self, list: List) -> bool {
        let begun = self.blocks.iter().filter(|block| block.list == list).count();
        self.announced.get(list.slot()).is_some_and(|count| *count > begun)
    }
}
