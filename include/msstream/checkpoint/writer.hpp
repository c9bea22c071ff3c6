// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/log_line.hpp>
#include <msstream/checkpoint/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

namespace msstream {

namespace detail {

class SnapshotWriter;

}  // namespace detail

namespace checkpoint {

struct WriterOptions {
  /// The folder of the checkpoints, which is made if there is none. Their names are
  /// `<name>-<step>.safetensors`; other files are left alone.
  std::filesystem::path folder = {};
  std::string name = "checkpoint";  ///< with which file names begin
  /// The number of checkpoints that are kept, those that were written last; 0 keeps all.
  int keep_last = 3;
  /// The number of checkpoints with the best metrics that are kept besides.
  int keep_best = 0;
  bool higher_is_better = true;  ///< for loss-like metrics, false
  /// The most device memory that the Writer takes, when it is made and until it is destroyed. Of
  /// what fits, save() makes a copy on the device; the rest is copied to the host directly, and
  /// updates of a tensor wait until its elements are copied.
  std::size_t device_bytes = std::numeric_limits<std::size_t>::max();
  /// The pinned host memory through which everything is copied, in chunks of at most 16 MiB; at
  /// least 1 KiB. If it holds all that is copied to the host directly, save() does not block.
  std::size_t pinned_bytes = std::size_t{64} << 20U;
  /// A function that receives a line of text for each old checkpoint that cannot be removed, once,
  /// on the writer's thread: see Writer::not_removed(). Exceptions of the function are dropped.
  std::function<void(std::string const&)> log = msstream::detail::log_line;
};

/// Writes checkpoints while the training goes on, and keeps the last ones and the best ones.
///
///     checkpoint::Writer writer(checkpoint::Tensors(parameters, optimizer), {.folder = "run"});
///     …
///     writer.save({.step = step, .metadata = {{"reader", reader_state}}, .metric = auc});
///
/// A checkpoint has the tensors exactly as they are after the work that was issued before save(),
/// whatever is issued afterwards. save() issues copies within the device, of as many bytes as
/// WriterOptions::device_bytes allows. A thread of the writer then copies them to pinned memory, on
/// the d2h stream of a group of its own, and writes the file: see OutputFile for what a crash or a
/// full disk leaves. All memory is allocated when the writer is made.
///
/// One thread at a time may call save(). wait(), is_writing() and not_removed() are thread-safe.
class Writer {
 public:
  /// Makes a writer for a list of tensors, and starts its thread. Throws std::invalid_argument for
  /// options out of range and for a list without tensors, OutOfMemory, and std::filesystem errors
  /// of the folder.
  Writer(Tensors const& tensors, WriterOptions const& options);
  Writer(Writer const&) = delete;
  Writer& operator=(Writer const&) = delete;
  /// Blocks the host until the last checkpoint is written. An error that no call has thrown is
  /// written to the standard error stream.
  ~Writer();

  /// Takes a checkpoint of the tensors after all work issued so far, and returns before it is
  /// written. First blocks the host until an earlier checkpoint is written. Of the bytes that are
  /// copied to the host directly, blocks until at most WriterOptions::pinned_bytes are left to
  /// write.
  ///
  /// Throws std::invalid_argument for a header that cannot be saved: see save(); std::logic_error
  /// in a capture; and the error of an earlier checkpoint that could not be written, after which
  /// nothing is saved and the next call tries again.
  void save(Header header, std::source_location issued_at = std::source_location::current());

  /// Blocks the host until the last checkpoint is written. Throws its error, once: the step, the
  /// file, and what went wrong.
  void wait();
  /// Returns whether a checkpoint is being written, so that save() would block.
  [[nodiscard]] bool is_writing() const;

  /// Returns the checkpoints that are kept no longer and that could not be removed. That is no
  /// failure of a checkpoint: the new one is complete, and is the last one. Each is written to
  /// WriterOptions::log, and its removal is tried again after every later checkpoint.
  [[nodiscard]] std::vector<std::filesystem::path> not_removed() const;

  /// Returns the file of the checkpoint of a step.
  [[nodiscard]] std::filesystem::path path_of(std::int64_t step) const;
  /// Returns the bytes of device memory that the writer has.
  [[nodiscard]] std::size_t device_bytes() const noexcept;
  /// Returns the bytes of pinned host memory that the writer has.
  [[nodiscard]] std::size_t pinned_bytes() const noexcept;

 private:
  std::shared_ptr<detail::SnapshotWriter> writer_;
};

}  // namespace checkpoint
}  // namespace msstream
