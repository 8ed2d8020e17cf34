//! The CRC-32 of zip files, which AWS event streams use.

/// `TABLES[k][b]` is the checksum of the byte `b` followed by `k` zero bytes, without the initial and the final inversion.
const TABLES: [[u32; 256]; 8] = tables();

#[expect(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler, which rejects an index out of bounds"
)]
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0_u32; 256]; 8];
    let (mut at, mut byte) = (0, 0_u32);
    while at < 256 {
        let (mut crc, mut bit) = (byte, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
            bit += 1;
        }
        tables[0][at] = crc;
        (at, byte) = (at + 1, byte + 1);
    }
    let mut zeros = 1;
    while zeros < 8 {
        at = 0;
        while at < 256 {
            let shorter = tables[zeros - 1][at];
            tables[zeros][at] = (shorter >> 8) ^ tables[0][(shorter & 0xff) as usize];
            at += 1;
        }
        zeros += 1;
    }
    tables
}

/// Returns the checksum of `bytes`. Processes eight bytes at a time.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let [t0, t1, t2, t3, t4, t5, t6, t7] = &TABLES;
    let of = |table: &[u32; 256], byte: u8| table.get(usize::from(byte)).copied().unwrap_or_default();
    let mut crc = u32::MAX;
    let (eights, rest) = bytes.as_chunks::<8>();
    for [b0, b1, b2, b3, b4, b5, b6, b7] in eights {
        let [c0, c1, c2, c3] = crc.to_le_bytes();
        crc = of(t7, b0 ^ c0) ^ of(t6, b1 ^ c1) ^ of(t5, b2 ^ c2) ^ of(t4, b3 ^ c3);
        crc ^= of(t3, *b4) ^ of(t2, *b5) ^ of(t1, *b6) ^ of(t0, *b7);
    }
    for byte in rest {
        let [low, ..] = crc.to_le_bytes();
        crc = (crc >> 8) ^ of(t0, byte ^ low);
    }
    !crc
}
