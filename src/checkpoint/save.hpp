// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/output_file.hpp>
#include <msstream/checkpoint/checkpoint.hpp>

#include <filesystem>
#include <source_location>

namespace msstream::detail {

/// Saves a checkpoint as checkpoint::save() does, and tells `observer` of the stages.
void save_checkpoint(std::filesystem::path const& path,
                     checkpoint::Tensors const& tensors,
                     checkpoint::Header const& header,
                     OutputFile::Observer observer,
                     std::source_location issued_at = std::source_location::current());

}  // namespace msstream::detail
