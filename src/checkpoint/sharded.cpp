// SPDX-License-Identifier: Apache-2.0
#include "base/name_pattern.hpp"
#include "checkpoint/data_plan.hpp"
#include "checkpoint/saved_blocks.hpp"
#include "checkpoint/tensor_header.hpp"
#include "step/parallel/sharded_tables_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/format.hpp>
#include <msstream/checkpoint/sharded.hpp>
#include <msstream/tensor/detail/any_copy.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <future>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace msstream::detail {
namespace {

using checkpoint::HostTensor;
using checkpoint::LoadOptions;
using checkpoint::SafetensorsFile;
using comm::detail::AnyCommunicator;

/// A tensor in host memory that rank 0 writes.
struct Gathered {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  [[nodiscard]] HostTensor host() const {
    // The elements are bytes here, and the type is put in afterwards.
    HostTensor tensor(
        name, shape, std::span(reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size()));
    tensor.dtype = dtype;
    return tensor;
  }
};

/// A block that a rank has told.
struct Told {
  int rank;
  SavedBlock at;
};

/// Tells all ranks what this one could not do, and throws on all of them if there is anything:
/// `failure` here, and std::runtime_error with the message where there is none.
void share_failure(AnyCommunicator const& communicator,
                   char const* call,
                   std::exception_ptr const& failure) {
  std::string message;
  try {
    if (failure) {
      std::rethrow_exception(failure);
    }
  } catch (std::exception const& error) {
    message = error.what();
    message = message.empty() ? "an exception without a message" : message;
  }
  auto const messages = communicator.exchange(message);
  if (failure) {
    std::rethrow_exception(failure);
  }
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    if (!messages[rank].empty()) {
      throw std::runtime_error(fmt::format("{}: rank {}: {}", call, rank, messages[rank]));
    }
  }
}

/// Calls a function that may fail on this rank alone, and throws on all ranks if it has failed on
/// one.
template <class Function>
void together(AnyCommunicator const& communicator, char const* call, Function const& function) {
  std::exception_ptr failure;
  try {
    function();
  } catch (...) {
    failure = std::current_exception();
  }
  share_failure(communicator, call, failure);
}

/// Calls a function of rank 0, which uses no device, while the ranks meet again and again: so the
/// others do not take rank 0 for lost, however long it is busy. Throws on all ranks if it fails.
template <class Function>
void on_first_rank(AnyCommunicator const& communicator, char const* call, Function function) {
  constexpr auto kBetweenMeetings = std::chrono::milliseconds(20);
  std::future<void> running;
  if (communicator.rank() == 0) {
    running = std::async(std::launch::async, std::move(function));
  }
  bool is_busy = true;
  while (is_busy) {
    bool const is_own_done =
        !running.valid() || running.wait_for(kBetweenMeetings) == std::future_status::ready;
    is_busy = !communicator.exchange(is_own_done ? "" : "busy").front().empty();
  }
  together(communicator, call, [&] {
    if (running.valid()) {
      running.get();
    }
  });
}

/// Returns the blocks of all ranks, by the name of the whole tensor, without a second copy of
/// replicated ones. Throws std::invalid_argument if blocks are missing.
[[nodiscard]] std::map<std::string, std::vector<Told>> told_by_all(
    std::vector<std::string> const& texts) {
  std::map<std::string, std::vector<Told>> all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    for (auto& block : understood(texts[rank])) {
      auto& of_name = all[block.name];
      bool const is_new = std::ranges::none_of(of_name, [&](auto const& other) {
        return other.at.first_row == block.first_row && other.at.first_column == block.first_column;
      });
      if (is_new) {
        of_name.push_back({static_cast<int>(rank), std::move(block)});
      }
    }
  }
  for (auto const& [name, blocks] : all) {
    std::int64_t elements = 0;
    for (auto const& block : blocks) {
      elements += block.at.rows * block.at.columns;
    }
    auto const& whole = blocks.front().at;
    require(
        elements == whole.shape[0] * whole.whole_columns(),
        "save_sharded: the ranks have {} of the {} elements of '{}'; expected the optimizers of "
        "all ranks to have all parts",
        elements,
        whole.shape[0] * whole.whole_columns(),
        name);
  }
  return all;
}

/// Copies rows of a block, which are one after the other, to their places in the whole tensor.
void put_rows(SavedBlock const& at,
              std::int64_t begin,
              std::int64_t end,
              std::byte const* from,
              Gathered& to) {
  auto const row_bytes = static_cast<std::size_t>(at.row_bytes());
  auto const column_bytes = at.first_column * static_cast<std::int64_t>(bytes_of(at.dtype));
  for (auto row = begin; row < end; ++row, from += row_bytes) {
    std::memcpy(to.bytes.data() + (at.first_row + row) * at.whole_row_bytes() + column_bytes,
                from,
                row_bytes);
  }
}

/// Gathers the parts of one tensor on rank 0.
void gather(AnyCommunicator const& communicator,
            std::vector<Told> const& blocks,
            std::vector<BlockOfRank> const& own,
            std::shared_ptr<DeviceState> const& device,
            Gathered& to,
            std::source_location issued_at) {
  for (auto const& [rank, at] : blocks) {
    bool const is_here = rank == communicator.rank();
    if (!is_here && communicator.rank() != 0) {
      continue;
    }
    auto const found = std::ranges::find_if(
        own, [&name = at.name](auto const& block) { return block.at.name == name; });
    for (std::int64_t begin = 0; begin < at.rows; begin += at.rows_at_once()) {
      auto const end = std::min(begin + at.rows_at_once(), at.rows);
      auto const rows = is_here ? found->tensor.rows(begin, end)
                                : AnyTensor(device, at.dtype, {end - begin, at.columns});
      if (!is_here) {
        comm::detail::receive(communicator, rows, rank, issued_at);
      } else if (rank != 0) {
        comm::detail::send(communicator, rows, 0, issued_at);
      }
      if (communicator.rank() == 0) {
        put_rows(
            at, begin, end, static_cast<std::byte const*>(download(rows, issued_at).data()), to);
      }
    }
  }
}

/// Adds the tensors of the list that belong to no table, and the arrays of the host.
void add_others(std::vector<TableSpec> const& tables,
                checkpoint::Tensors const& others,
                std::vector<Gathered>& to,
                std::source_location issued_at) {
  for (auto const& [name, tensor, is_optional] : others.any()) {
    if (belongs_to(tables, name)) {
      continue;
    }
    Gathered own{name, tensor.dtype(), {}, std::vector<std::byte>(tensor.bytes())};
    for (std::size_t i = 0; i < tensor.shape().rank(); ++i) {
      own.shape.push_back(tensor.shape()[i]);
    }
    if (!own.bytes.empty()) {
      std::memcpy(own.bytes.data(), download(tensor, issued_at).data(), own.bytes.size());
    }
    to.push_back(std::move(own));
  }
  for (auto const& [prefix, state] : others.states()) {
    for (auto const& array : state->arrays()) {
      to.push_back({prefix + array.name,
                    array.dtype,
                    array.shape,
                    {array.bytes.begin(), array.bytes.end()}});
    }
  }
}

/// Returns what of the file does not fit the blocks of this rank; empty if all does.
[[nodiscard]] std::string misfits(SafetensorsFile const& file,
                                  std::vector<BlockOfRank> const& blocks) {
  std::string problems;
  for (auto const& [at, tensor] : blocks) {
    auto const found = file.tensors().find(at.name);
    auto const separator = problems.empty() ? "" : "; ";
    if (found == file.tensors().end()) {
      problems += fmt::format("{}missing in the file: {}", separator, shortened(at.name));
    } else if (found->second.dtype != at.dtype || found->second.shape != at.shape) {
      problems += fmt::format("{}of another shape or type: {} (expected {} {}, found {} {})",
                              separator,
                              shortened(at.name),
                              tensor_word(at.dtype),
                              describe_shape(at.shape),
                              found->second.type,
                              shortened(describe_shape(found->second.shape)));
    }
  }
  return problems;
}

[[nodiscard]] bool is_wanted(LoadOptions const& options, std::string_view name) {
  auto const matches = [&](auto const& patterns) {
    return std::ranges::any_of(patterns,
                               [&](auto const& pattern) { return matches_pattern(pattern, name); });
  };
  return (options.only.empty() || matches(options.only)) && !matches(options.except);
}

void load_block(SafetensorsFile const& file,
                BlockOfRank const& block,
                std::source_location issued_at) {
  auto const& at = block.at;
  auto const& from = file.tensor(at.name);
  auto const column_bytes = at.first_column * static_cast<std::int64_t>(bytes_of(at.dtype));
  auto const row_bytes = static_cast<std::size_t>(at.row_bytes());
  std::vector<std::byte> read;
  std::vector<std::byte> rows;
  // As many rows are read at once as fit with all their columns.
  auto const at_once =
      std::max<std::int64_t>(1, at.rows_at_once() * at.row_bytes() / at.whole_row_bytes());
  for (std::int64_t begin = 0; begin < at.rows; begin += at_once) {
    auto const end = std::min(begin + at_once, at.rows);
    read.resize(static_cast<std::size_t>((end - begin) * at.whole_row_bytes()));
    file.read(
        from, static_cast<std::uint64_t>((at.first_row + begin) * at.whole_row_bytes()), read);
    rows.resize(static_cast<std::size_t>(end - begin) * row_bytes);
    for (std::int64_t row = 0; row < end - begin; ++row) {
      std::memcpy(rows.data() + static_cast<std::size_t>(row) * row_bytes,
                  read.data() + row * at.whole_row_bytes() + column_bytes,
                  row_bytes);
    }
    auto const target = block.tensor.rows(begin, end);
    copy_on_device(target,
                   upload(target.device(),
                          target.dtype(),
                          rows.data(),
                          static_cast<std::size_t>(target.count()),
                          target.shape(),
                          issued_at),
                   issued_at);
  }
}

}  // namespace

void save_sharded(std::filesystem::path const& path,
                  AnyShardedTables const& tables,
                  checkpoint::Tensors const& others,
                  checkpoint::Header const& header,
                  std::source_location issued_at) {
  constexpr char const* kCall = "checkpoint::save_sharded";
  auto const& communicator = tables.state().communicator();
  auto const& device = tables.state().device();
  require_outside_capture(*device, kCall);
  std::vector<BlockOfRank> own;
  together(communicator, kCall, [&] {
    others.require_ready(kCall, true);
    own = blocks_of_rank(tables, others);
  });
  auto const all = told_by_all(communicator.exchange(told(own)));
  std::vector<Gathered> gathered;
  together(communicator, kCall, [&] {
    for (auto const& [name, blocks] : all) {
      auto const& whole = blocks.front().at;
      auto const bytes = communicator.rank() == 0 ? whole.shape[0] * whole.whole_row_bytes() : 0;
      gathered.push_back({name,
                          whole.dtype,
                          whole.shape,
                          std::vector<std::byte>(static_cast<std::size_t>(bytes))});
    }
  });
  for (auto& to : gathered) {
    gather(communicator, all.at(to.name), own, device, to, issued_at);
    // A rank without blocks of a tensor does not wait for those of all others at once.
    static_cast<void>(communicator.exchange(""));
  }
  together(communicator, kCall, [&] {
    if (communicator.rank() == 0) {
      add_others(tables.state().tables(), others, gathered, issued_at);
    }
  });
  on_first_rank(communicator, kCall, [&] {
    std::vector<HostTensor> hosts;
    for (auto const& tensor : gathered) {
      hosts.push_back(tensor.host());
    }
    checkpoint::save_safetensors(path, hosts, metadata_of(header));
  });
}

checkpoint::Loaded load_sharded(std::filesystem::path const& path,
                                AnyShardedTables const& tables,
                                checkpoint::Tensors const& others,
                                LoadOptions const& options,
                                std::source_location issued_at) {
  constexpr char const* kCall = "checkpoint::load_sharded";
  auto const& communicator = tables.state().communicator();
  require_outside_capture(*tables.state().device(), kCall);
  std::optional<SafetensorsFile> file;
  std::vector<BlockOfRank> own;
  checkpoint::Loaded loaded;
  std::vector<std::string> missing;
  together(communicator, kCall, [&] {
    require(
        !options.rename && options.transposed.empty() && options.rows.empty() && !options.averages,
        "{}: options with rename, transposed, rows or averages; expected none of them",
        kCall);
    file.emplace(path);
    own = blocks_of_rank(tables, others);
    std::erase_if(own, [&](BlockOfRank const& block) {
      bool const is_missing = !file->tensors().contains(block.at.name);
      if (is_missing && options.allow_missing && is_wanted(options, block.at.name)) {
        missing.push_back(block.at.name);
      }
      return !is_wanted(options, block.at.name) || (is_missing && options.allow_missing);
    });
    auto const problems = misfits(*file, own);
    require(problems.empty(),
            "{}: the checkpoint does not fit, and nothing was loaded: {}",
            path.string(),
            problems);
  });
  together(communicator, kCall, [&] {
    auto rest = options;
    std::set<std::string> of_tables;
    for (auto const& [name, tensor] : file->tensors()) {
      of_tables.insert(name);
    }
    for (auto const& [name, tensor, is_optional] : others.any()) {
      of_tables.insert(name);
    }
    for (auto const& name : of_tables) {
      if (belongs_to(tables.state().tables(), name)) {
        rest.except.push_back(name);
      }
    }
    loaded = checkpoint::load(path, others, rest, issued_at);
    for (auto const& block : own) {
      load_block(*file, block, issued_at);
      loaded.tensors.push_back(block.at.name);
    }
    loaded.missing.insert(loaded.missing.end(), missing.begin(), missing.end());
  });
  return loaded;
}

}  // namespace msstream::detail
