// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/checkpoint/safetensors.hpp>
#include <msstream/data/batch.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::training {

/// Returns widths as text, such as "512,256", for the metadata of a checkpoint.
[[nodiscard]] std::string text_of(std::vector<std::int64_t> const& widths);

/// Returns the position in the data that the checkpoint `path` of a training program has.
/// `expected` has the texts that the program saves besides: its "format", and the options that must
/// be equal in a run that resumes. Throws std::invalid_argument, whose message says what differs,
/// if the file has other texts.
[[nodiscard]] data::LoaderPosition position_in_same_run(std::string const& path,
                                                        std::string_view program,
                                                        checkpoint::Metadata const& expected);

/// Throws std::invalid_argument if the checkpoint `path` is of a step beyond the last one of this
/// run.
void require_step_within(std::string const& path, std::int64_t step, std::int64_t last_step);

}  // namespace msstream::training
