// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/checkpoint/safetensors.hpp>
#include <msstream/checkpoint/tensors.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::data {

class Transforms;

}  // namespace msstream::data

/// Checkpoints: named tensors of a device and texts, in safetensors files, which Python's
/// `safetensors` reads and writes too.
///
///     checkpoint::Tensors const tensors(parameters, optimizer);
///     checkpoint::save("model.safetensors", tensors, {.step = 1000});
///     auto const loaded = checkpoint::load("model.safetensors", tensors);   // loaded.step == 1000
namespace msstream::checkpoint {

/// The contents of a checkpoint besides its tensors.
struct Header {
  std::int64_t step = 0;  ///< of the training, for Loaded::step
  /// Texts by name, such as the position in the data, or options as JSON.
  /// The names `step`, `metric`, `best` and `sequence` are the library's.
  Metadata metadata = {};
  /// The value by which a Writer keeps the best checkpoints. Empty, NaN or infinite: never among
  /// the best.
  std::optional<double> metric = {};
};

/// Saves the tensors as they are after all work issued so far. The file is replaced as a whole: see
/// OutputFile. Blocks the host until the file is complete; takes no device memory, and two chunks
/// of pinned memory of at most 16 MiB each. No other thread may issue work that writes the tensors
/// meanwhile. Throws std::invalid_argument for a header that cannot be saved (a reserved name, text
/// that is not UTF-8, more than 100 million bytes), std::system_error if the file cannot be
/// written, and failures of the work; the earlier file then stays. Throws std::logic_error in a
/// capture, between micro-batches of an update of an optimizer in the list, for a list that is
/// older than a parameter, and for parameters that are swapped with their averages.
void save(std::filesystem::path const& path,
          Tensors const& tensors,
          Header const& header = {},
          std::source_location issued_at = std::source_location::current());

struct LoadOptions {
  /// Patterns of names, in which `*` stands for any characters and `?` for one. Only tensors whose
  /// name matches one of them are loaded, and all others are left alone, here and in the file. If
  /// empty, all tensors are loaded.
  std::vector<std::string> only = {};
  /// Patterns of names that are left alone although `only` selects them.
  std::vector<std::string> except = {};
  /// Whether tensors that the file lacks keep their elements. If false, the file is refused.
  bool allow_missing = false;
  /// Whether tensors of the file that are not wanted are passed over. If false, the file is
  /// refused.
  bool allow_unexpected = false;
  /// Returns the name in the file of the tensor with this name in the list, for files of another
  /// program or model. If empty, the names are equal. `only`, `except`
  /// and `transposed` match names of the list, and for tensors that only the file has, names of the
  /// file. Vocabularies and the rule of an optimizer keep their names.
  std::function<std::string(std::string const& name)> rename = {};
  /// Whether weights get the values of their averages, `average/<name>` in the file of a training
  /// with ParameterAverages, and all other tensors their own values. Averages of weights of 16 bits
  /// are rounded to nearest. A file that has no average at all is refused.
  bool averages = false;
  /// Patterns of names of matrices that the file has transposed, as PyTorch has the weight
  /// [outputs, inputs] of a Linear. Takes host memory of twice the largest of them.
  std::vector<std::string> transposed = {};
  /// For tables that have other rows than those of the file, by the pattern of their names: the row
  /// of the file that each row gets, or -1 if it keeps its elements, as rows beyond the list do.
  /// The file's table may have any number of rows. See rows_by_key(). Takes host memory of the
  /// table and of that of the file.
  std::map<std::string, std::vector<std::int64_t>> rows = {};
};

/// Returns, for each id of a column of `now`, the id that `before` has for the same value of its
/// vocabulary; -1 for values that it lacks. Ids out of the vocabulary correspond if both have as
/// many, and so do those of Transform::hash() if both hash alike. Throws std::invalid_argument for
/// a column that has no ids in one of both, and for transforms that have not been fitted.
[[nodiscard]] std::vector<std::int64_t> rows_by_key(data::Transforms const& now,
                                                    data::Transforms const& before,
                                                    std::string_view column);

/// The contents that load() has found in a file.
struct Loaded {
  std::int64_t step = 0;                     ///< 0 if the file says none
  Metadata metadata = {};                    ///< without the library's own texts
  std::optional<double> metric = {};         ///< see Header::metric
  std::vector<std::string> tensors = {};     ///< the tensors that were loaded
  std::vector<std::string> missing = {};     ///< those that the file lacks
  std::vector<std::string> unexpected = {};  ///< those that only the file has
};

/// Loads the elements of the tensors from a safetensors file, saved by this library or another
/// program. Work that is issued afterwards sees the new elements. Blocks the host until the file
/// has been read; takes two chunks of pinned memory of at most 16 MiB each.
///
/// Frozen tensors are loaded too, because freezing is for training, and stay frozen; steps that
/// were captured with them, and views, have the new elements. Reads of frozen tensors are not
/// tracked, so load() then waits for all work of the device, and no other thread may issue work
/// that reads them meanwhile: stop an inference pool first.
///
/// Throws std::invalid_argument, and changes nothing, if the file is not valid or does not fit: the
/// message lists by name the tensors that are missing, unexpected, of another shape or of another
/// element type, transforms and the rule of an optimizer that are not those of the program, and
/// patterns that select no tensor. Throws std::system_error if the file cannot be read; if that
/// happens in the middle, which the message says, some tensors have been loaded and others not.
/// Throws std::logic_error in a capture, for a list that is older than a parameter, and for
/// parameters that are swapped with their averages.
Loaded load(std::filesystem::path const& path,
            Tensors const& tensors,
            LoadOptions const& options = {},
            std::source_location issued_at = std::source_location::current());

/// Returns the checkpoint that a Writer with these options wrote last; empty if there is none, also
/// if there is no such folder.
[[nodiscard]] std::optional<std::filesystem::path> latest(std::filesystem::path const& folder,
                                                          std::string_view name = "checkpoint");
/// Returns the checkpoint with the best metric, of equal ones the first; empty if none has a finite
/// metric. Higher or lower is better as the last Writer had it in its options: the files say so.
[[nodiscard]] std::optional<std::filesystem::path> best(std::filesystem::path const& folder,
                                                        std::string_view name = "checkpoint");

}  // namespace msstream::checkpoint
