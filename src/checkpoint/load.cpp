// SPDX-License-Identifier: Apache-2.0
#include "base/name_pattern.hpp"
#include "checkpoint/arrange.hpp"
#include "checkpoint/data_plan.hpp"
#include "memory/device/device_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/checkpoint/checkpoint.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace msstream::detail {

namespace {

using checkpoint::Loaded;
using checkpoint::LoadOptions;
using checkpoint::SafetensorsFile;

/// A tensor to load, and the one of the file that has its elements.
struct LoadedPair {
  AnyTensor const* to;
  SafetensorsFile::Tensor const* from;
  std::vector<Arrange> arrange;  ///< in this order; empty if the file has the elements as they are
};

bool matches_any(std::vector<std::string> const& patterns, std::string_view name) {
  return std::ranges::any_of(patterns,
                             [&](auto const& pattern) { return matches_pattern(pattern, name); });
}

bool is_selected(LoadOptions const& options, std::string_view name) {
  return (options.only.empty() || matches_any(options.only, name)) &&
         !matches_any(options.except, name);
}

/// Returns the rows that a tensor gets; null if it gets those of the file in their order.
std::vector<std::int64_t> const* rows_of(LoadOptions const& options, std::string_view name) {
  auto const found = std::ranges::find_if(
      options.rows, [&](auto const& item) { return matches_pattern(item.first, name); });
  return found == options.rows.end() ? nullptr : &found->second;
}

/// Lists names for a message, at most twenty.
std::string list_of(std::vector<std::string> const& names) {
  constexpr std::size_t most = 20;
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    list += fmt::format("{}{}", i == 0 ? "" : ", ", shortened(names[i]));
  }
  return names.size() > most ? fmt::format("{} and {} more", list, names.size() - most) : list;
}

/// Returns what is wrong with the tensor of the file; empty if nothing is.
std::string difference(AnyTensor const& tensor,
                       DType dtype,
                       SafetensorsFile::Tensor const& found,
                       bool is_transposed,
                       std::vector<std::int64_t> const* rows) {
  std::vector<std::int64_t> shape;
  for (std::size_t i = 0; i < tensor.shape().rank(); ++i) {
    shape.push_back(tensor.shape()[i]);
  }
  if (is_transposed) {
    if (shape.size() != 2) {
      return fmt::format("{} is no matrix, and cannot be transposed", describe_shape(shape));
    }
    std::swap(shape[0], shape[1]);
  }
  if (rows != nullptr) {
    if (is_transposed || shape.empty() || found.shape.empty()) {
      return fmt::format("{} has no rows in the file", describe_shape(shape));
    }
    auto const count = found.shape[0];
    if (std::ssize(*rows) > shape[0]) {
      return fmt::format("LoadOptions::rows has {} numbers; expected up to {}, one for each row",
                         rows->size(),
                         shape[0]);
    }
    auto const wrong =
        std::ranges::find_if(*rows, [&](auto row) { return row < -1 || row >= count; });
    if (wrong != rows->end()) {
      return fmt::format(
          "LoadOptions::rows has {} for row {}; the file has {} rows; expected -1 to {}",
          *wrong,
          wrong - rows->begin(),
          count,
          count - 1);
    }
    shape[0] = count;
  }
  if (found.dtype == dtype && found.shape == shape) {
    return {};
  }
  return fmt::format("expected {} {}, found {} {}",
                     tensor_word(dtype),
                     describe_shape(shape),
                     found.type,
                     shortened(describe_shape(found.shape)));
}

/// Returns a function that finds arrays of the file whose names begin with `prefix`.
HostState::Find finder(SafetensorsFile const& file, std::string const& prefix) {
  return [&file, prefix](std::string const& name) -> std::optional<HostState::Found> {
    auto const found = file.tensors().find(prefix + name);
    if (found == file.tensors().end()) {
      return std::nullopt;
    }
    HostState::Found array{found->second.dtype, found->second.shape, {}};
    array.bytes.resize(static_cast<std::size_t>(found->second.bytes));
    file.read(found->second, 0, array.bytes);
    return array;
  };
}

/// The parts that are loaded from a file that fits.
struct LoadPlan {
  std::vector<LoadedPair> pairs;
  std::vector<std::function<void()>> states;  ///< which take over what was read
};

/// Compares the file with the tensors, and returns what to load. Throws std::invalid_argument with
/// everything that differs.
LoadPlan compare(SafetensorsFile const& file,
                 checkpoint::Tensors const& tensors,
                 LoadOptions const& options,
                 Loaded& loaded,
                 std::source_location issued_at) {
  LoadPlan plan;
  std::vector<std::string> others;
  std::vector<std::string> absent;  // the missing ones, by the names that they have in the file
  std::set<std::string> claimed;    // names of the file that belong to a tensor of the list
  std::size_t averages = 0;         // the tensors of the list whose average the file has
  for (auto const& [name, tensor, is_optional] : tensors.any()) {
    auto const name_in_file = options.rename ? options.rename(name) : name;
    claimed.insert(name_in_file);
    auto const average =
        options.averages ? file.tensors().find("average/" + name_in_file) : file.tensors().end();
    bool const is_average = average != file.tensors().end();
    if (is_average) {
      claimed.insert(average->first);
      averages += 1;
    }
    if (!is_selected(options, name)) {
      continue;
    }
    auto const found = is_average ? average : file.tensors().find(name_in_file);
    if (found == file.tensors().end()) {
      if (!is_optional) {
        loaded.missing.push_back(name);
        absent.push_back(name_in_file);
      }
      continue;
    }
    bool const is_transposed = matches_any(options.transposed, name);
    auto const* const rows = rows_of(options, name);
    bool const is_rounded = is_average && bytes_of(tensor.dtype()) == 2;
    auto const dtype = is_rounded ? DType::float32 : tensor.dtype();
    if (auto what = difference(tensor, dtype, found->second, is_transposed, rows); !what.empty()) {
      others.push_back(fmt::format("{} ({})", shortened(name), what));
      continue;
    }
    loaded.tensors.push_back(name);
    auto& pair = plan.pairs.emplace_back(LoadedPair{&tensor, &found->second, {}});
    if (is_rounded) {
      pair.arrange.push_back(round_to(tensor.dtype()));
    }
    if (is_transposed) {
      pair.arrange.push_back(transpose_to(tensor));
    }
    if (rows != nullptr) {
      pair.arrange.push_back(rows_to(tensor, *rows, issued_at));
    }
  }
  std::vector<std::string> unfit;
  std::vector<std::string> prefixes;
  for (auto const& [prefix, state] : tensors.states()) {
    auto const first = prefix + state->first_name();
    prefixes.push_back(prefix + state->prefix());
    if (!is_selected(options, first)) {
      continue;
    }
    bool const exists = file.tensors().contains(first);
    if (!exists && !state->is_optional()) {
      loaded.missing.push_back(first);
      absent.push_back(first);
      continue;
    }
    try {
      plan.states.push_back(state->read(finder(file, prefix)));
      if (exists) {
        loaded.tensors.push_back(first);
      }
    } catch (std::invalid_argument const& error) {
      unfit.push_back(
          fmt::format("not what the program states: {} ({})", shortened(first), error.what()));
    }
  }
  for (auto const& [name, ignored] : file.tensors()) {
    bool const of_state = std::ranges::any_of(
        prefixes, [&name = name](auto const& prefix) { return name.starts_with(prefix); });
    if (is_selected(options, name) && !claimed.contains(name) && !of_state) {
      loaded.unexpected.push_back(name);
    }
  }
  std::vector<std::string> idle;
  std::vector<std::string> of_rows;
  for (auto const& [pattern, rows] : options.rows) {
    of_rows.push_back(pattern);
  }
  for (auto const& patterns : {options.only, options.except, options.transposed, of_rows}) {
    for (auto const& pattern : patterns) {
      bool selects = std::ranges::any_of(
          tensors.any(), [&](auto const& named) { return matches_pattern(pattern, named.name); });
      selects = selects || std::ranges::any_of(tensors.states(), [&](auto const& named) {
                  return matches_pattern(pattern, named.prefix + named.state->first_name());
                });
      bool const in_file = std::ranges::any_of(
          file.tensors(), [&](auto const& item) { return matches_pattern(pattern, item.first); });
      if (!selects && !in_file) {
        idle.push_back(pattern);
      }
    }
  }

  std::string problems;
  auto const tell = [&](std::vector<std::string> const& names, std::string_view what) {
    if (!names.empty()) {
      problems += fmt::format("{}{}: {}", problems.empty() ? "" : "; ", what, list_of(names));
    }
  };
  tell(idle, "patterns that match no tensor");
  if (options.averages && averages == 0) {
    problems +=
        fmt::format("{}no averages, average/<name>, in the file", problems.empty() ? "" : "; ");
  }
  tell(options.allow_missing ? std::vector<std::string>() : absent, "missing in the file");
  tell(options.allow_unexpected ? std::vector<std::string>() : loaded.unexpected,
       "only in the file (LoadOptions::allow_unexpected ignores them)");
  tell(others, "of another shape or type");
  for (auto const& what : unfit) {  // written by the library, so not shortened
    problems += fmt::format("{}{}", problems.empty() ? "" : "; ", what);
  }
  require(problems.empty(),
          "{}: the checkpoint does not fit, and nothing was loaded: {}",
          file.path().string(),
          problems);
  return plan;
}

/// Uploads the elements of the file in chunks, of which one is copied while the next one is read.
class Upload {
 public:
  Upload(SafetensorsFile const& file,
         std::shared_ptr<DeviceState> const& device,
         std::uint64_t largest,
         std::source_location issued_at)
      : file_(file),
        device_(device),
        sizes_(ChunkSizes::of(4 * ChunkSizes::kLargest, largest)),
        issued_at_(issued_at) {
    for (auto& chunk : chunks_) {
      chunk.emplace(device, sizes_.chunk_bytes, 1);
    }
  }

  void upload(LoadedPair const& pair) {
    if (!pair.arrange.empty()) {
      arranged_.resize(static_cast<std::size_t>(pair.from->bytes));
      file_.read(*pair.from, 0, arranged_);
      for (auto const& arrange : pair.arrange) {
        arranged_ = arrange(arranged_);
      }
    }
    std::uint64_t const end = pair.arrange.empty() ? pair.from->bytes : arranged_.size();
    for (std::uint64_t begin = 0; begin < end;) {
      auto const bytes = std::min<std::uint64_t>(sizes_.chunk_bytes, end - begin);
      upload(pair, begin, static_cast<std::size_t>(bytes));
      begin += bytes;
    }
  }

 private:
  void upload(LoadedPair const& pair, std::uint64_t begin, std::size_t bytes) {
    auto const& pinned = *chunks_[next_];
    if (copied_[next_]) {
      device_->context->tracker->synchronize(*copied_[next_]);
    }
    pinned.host_uses(AccessMode::write);
    if (!pair.arrange.empty()) {
      std::memcpy(pinned.data(), arranged_.data() + begin, bytes);
    } else {
      file_.read(*pair.from, begin, {static_cast<std::byte*>(pinned.data()), bytes});
    }
    auto* const target = static_cast<std::byte*>(pair.to->data()) + begin;
    AnyUses read(AccessMode::read);
    AnyUses written(AccessMode::write);
    read.add(*pinned.block(), pinned.data(), bytes);
    written.add(*pair.to->block(), target, bytes);
    copied_[next_] = issue_copies("checkpoint_h2d",
                                  CopyKind::h2d,
                                  read,
                                  written,
                                  {{target, pinned.data(), bytes}},
                                  *device_,
                                  issued_at_);
    next_ = 1 - next_;
  }

  SafetensorsFile const& file_;
  std::shared_ptr<DeviceState> const& device_;
  ChunkSizes sizes_;
  std::source_location issued_at_;
  std::optional<AnyPinnedArray> chunks_[2];
  std::optional<order::Position> copied_[2];
  std::size_t next_ = 0;
  std::vector<std::byte> arranged_;  ///< the bytes of a tensor that the file has in another way
};

/// Lets frozen tensors be written while it lives. Waits for all work of the device first, because
/// reads of frozen tensors are not tracked.
class Thawed {
 public:
  explicit Thawed(std::vector<LoadedPair> const& pairs) {
    for (auto const& pair : pairs) {
      if (pair.to->immutable()) {
        tensors_.push_back(*pair.to);
      }
    }
    if (!tensors_.empty()) {
      auto& tracker = *tensors_.front().device()->context->tracker;
      for (auto const& newest : tracker.newest_positions()) {
        tracker.synchronize(newest);
      }
    }
    set_immutable(false);
  }
  Thawed(Thawed const&) = delete;
  Thawed& operator=(Thawed const&) = delete;
  ~Thawed() { set_immutable(true); }

  /// Waits for the writes, so that they need not be tracked afterwards.
  void freeze() const {
    for (auto const& tensor : tensors_) {
      tensor.freeze();
    }
  }

 private:
  void set_immutable(bool is_immutable) const noexcept {
    for (auto const& tensor : tensors_) {
      tensor.block()->immutable = is_immutable;
    }
  }

  std::vector<AnyTensor> tensors_;
};

void upload_all(SafetensorsFile const& file,
                std::vector<LoadedPair> pairs,
                std::source_location issued_at) {
  std::ranges::stable_sort(pairs, {}, [](LoadedPair const& pair) { return pair.from->begin; });
  std::uint64_t largest = 0;
  for (auto const& pair : pairs) {
    largest = std::max(largest, pair.from->bytes);
  }
  if (largest == 0) {
    return;
  }
  Thawed const thawed(pairs);
  Upload upload(file, pairs.front().to->device(), largest, issued_at);
  try {
    for (auto const& pair : pairs) {
      upload.upload(pair);
    }
  } catch (std::system_error const& error) {
    throw std::system_error(
        error.code(),
        fmt::format("{}: cannot be read to the end; some tensors have been loaded and others not",
                    file.path().string()));
  }
  thawed.freeze();
}

}  // namespace

}  // namespace msstream::detail

namespace msstream::checkpoint {

Loaded load(std::filesystem::path const& path,
            Tensors const& tensors,
            LoadOptions const& options,
            std::source_location issued_at) {
  if (tensors.count() > 0) {
    detail::require_outside_capture(*tensors.any().front().tensor.device(), "checkpoint::load");
  }
  tensors.require_ready("checkpoint::load", false);
  SafetensorsFile const file(path);
  auto header = detail::header_of(file);
  Loaded loaded{
      .step = header.step, .metadata = std::move(header.metadata), .metric = header.metric};
  auto plan = detail::compare(file, tensors, options, loaded, issued_at);
  detail::upload_all(file, std::move(plan.pairs), issued_at);
  for (auto const& take_over : plan.states) {
    take_over();
  }
  return loaded;
}

}  // namespace msstream::checkpoint
