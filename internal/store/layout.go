package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
)

// Sort keys of an activity's partition. All that a worker needs of the first chunk
// lies side by side, so that one query reads it: the record, then the chunk's target
// records (R) and state (S). A chunk's target list (P) sorts before those, its texts
// (T) after. Most activities have one chunk only.
const skRecord = "META"

func activityPK(id activity.ID) string { return "A#" + string(id) }

func recordKey(id activity.ID) table.Key { return table.Key{PK: activityPK(id), SK: skRecord} }

func chunkSK(chunk int, rest string) string { return fmt.Sprintf("N#%06d#%s", chunk, rest) }

func planKey(id activity.ID, chunk int) table.Key {
	return table.Key{PK: activityPK(id), SK: chunkSK(chunk, "P")}
}

func ownKey(id activity.ID, chunk, position int) table.Key {
	return table.Key{PK: activityPK(id), SK: chunkSK(chunk, fmt.Sprintf("R#%04d", position))}
}

func stateKey(id activity.ID, chunk int) table.Key {
	return table.Key{PK: activityPK(id), SK: chunkSK(chunk, "S")}
}

func textKey(id activity.ID, chunk int, name string) table.Key {
	return table.Key{PK: activityPK(id), SK: chunkSK(chunk, "T#"+name)}
}

// chunkPart splits the sort key of a chunk's item: "N#000012#R#0003" is part
// "R" of chunk 12, and rest "0003".
func chunkPart(sk string) (chunk int, part, rest string, err error) {
	fields := strings.SplitN(sk, "#", 4)
	if len(fields) < 3 || fields[0] != "N" {
		return 0, "", "", fmt.Errorf("%q is not a key of a chunk", sk)
	}
	if len(fields) == 4 {
		rest = fields[3]
	}
	chunk, err = strconv.Atoi(fields[1])
	return chunk, fields[2], rest, err
}

// longName is the length from which a name goes into a key as its digest, so
// that keys stay within the limits of a table.
const longName = 200

// keyName returns s as a part of a key: itself, so that an operator can read
// the table, unless it is long. Different names stay different.
func keyName(s string) string {
	if len(s) < longName && !strings.HasPrefix(s, "sha256:") {
		return s
	}
	return "sha256:" + digest(s, 32)
}

// digest returns the first n bytes of the SHA-256 of s, in hexadecimal.
func digest(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:n])
}
