// Package segment is the record codec: many messages become one blob and come back. It is pure.
//
// A segment is stored as a format number, a count, 16 bytes of hash a record (IDs), and a body. Format 1:
//
//	body   = encoding byte (0 plain, 1 zstd) · uvarint length of the plain records (zstd only) · records
//	       | encoding byte 2 (sealed) · uvarint n, head of the cipher · sealed records
//	record = flags byte · [message id, 16] · [trace id, 16] · [uvarint n, producer sub] ·
//	         [uvarint n, transaction id] · uvarint n, payload
//
// Format 2 is the same, but that a body of more than 32 KiB of records which is worth compressing is cut into blocks of whole
// records, each compressed by itself, so that one record is read without unpacking the others:
//
//	body   = encoding byte 3 (blocks) · uvarint number of blocks ·
//	         for each block: uvarint records, uvarint length of the plain records, uvarint stored length ·
//	         the blocks, zstd, or plain where both lengths are the same
//
// Each bracket is there when its flag is. A reader that meets a format, encoding or flag it does not know returns
// an error that says so; it never guesses.
//
// A sealed record is a record whose payload is encrypted: what stands before the payload is readable, because
// de-duplication, acks and traces need it without a key, and is authenticated with the payload. What is encrypted is
//
//	packed payload = encoding byte (0 plain, 1 zstd) · uvarint length of the payload (zstd only) · payload
//
// How it is encrypted, and what is in the head, is the cipher's matter (package seal). Payloads are compressed one by
// one, each from 1 KiB on, so that a sealed body is often larger than a plain one. A payload that is sealed
// by itself is encoding byte 2 · uvarint n, head of the cipher · encrypted packed payload.
package segment
