// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of Chrome traces, plain and gzipped, of timelines and of step traces. A file
// must either be refused by an error that names it, or give recordings whose parts refer to parts
// that exist, with times that run forwards from 0.
#include "read_recordings.hpp"

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  msstream::fuzz::read_recordings(msstream::fuzz::as_text(bytes, count));
  return 0;
}
