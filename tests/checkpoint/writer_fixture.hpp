// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "checkpoint/snapshot_writer.hpp"
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/checkpoint/writer.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace msstream::testing {

using checkpoint::Tensors;
using checkpoint::Writer;
using checkpoint::WriterOptions;

inline constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

/// A few tensors of odd sizes, all bytes of which are the number of the last step.
template <class R>
struct SmallModel {
  explicit SmallModel(Device<R> const& on)
      : device(on),
        ids(zeros<std::int64_t>(on, {33})),
        table(zeros<float>(on, {127, 3})),
        half(zeros<float16>(on, {4097})),
        none(zeros<float>(on, {0, 3})),
        count(zeros<std::uint8_t>(on, {7})) {}

  void step(std::uint8_t number) const {
    fill_bytes(ids, number);
    fill_bytes(table, number);
    fill_bytes(half, number);
    fill_bytes(count, number);
  }
  [[nodiscard]] Tensors tensors() const { return Tensors().add(*this); }
  template <class Visit>
  void visit(Visit&& visit) const {
    visit("ids", ids);
    visit("table", table);
    visit("half", half);
    visit("none", none);
    visit("count", count);
  }

  Device<R> device;
  Tensor<std::int64_t, R> ids;
  Tensor<float, R> table;
  Tensor<float16, R> half;
  Tensor<float, R> none;
  Tensor<std::uint8_t, R> count;
};

/// Returns all bytes of a file's tensors that differ from the others, each once.
inline std::vector<int> bytes_of_tensors(std::filesystem::path const& path) {
  checkpoint::SafetensorsFile const file(path);
  std::vector<int> found;
  for (auto const& [name, tensor] : file.tensors()) {
    std::vector<std::byte> bytes(tensor.bytes);
    file.read(tensor, 0, bytes);
    for (auto const byte : bytes) {
      if (std::ranges::find(found, static_cast<int>(byte)) == found.end()) {
        found.push_back(static_cast<int>(byte));
      }
    }
  }
  return found;
}

template <class R>
class WriterTest : public RuntimeTest<R> {
 protected:
  [[nodiscard]] WriterOptions options(WriterOptions changed = {}) const {
    changed.folder = folder_.path();
    return changed;
  }
  TemporaryFolder folder_;
};

}  // namespace msstream::testing
