// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace msstream::detail {

/// Arrays in host memory that a checkpoint saves and loads besides the tensors of a device. They
/// belong together, and only a file knows their sizes.
class HostState {
 public:
  /// An array, row-major, whose memory `owner` keeps.
  struct Array {
    std::string name;
    DType dtype;
    std::vector<std::int64_t> shape;
    std::span<std::byte const> bytes;
    std::shared_ptr<void const> owner;
  };
  /// An array of a file. `dtype` is empty for types that the library lacks.
  struct Found {
    std::optional<DType> dtype;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
  };
  /// Returns the array of the file with a name; empty if there is none.
  using Find = std::function<std::optional<Found>(std::string const& name)>;

  HostState() = default;
  HostState(HostState const&) = delete;
  HostState& operator=(HostState const&) = delete;
  virtual ~HostState() = default;

  /// Returns the arrays, whose contents do not change afterwards. The first one always exists.
  /// Throws std::invalid_argument if there is nothing to save yet.
  [[nodiscard]] virtual std::vector<Array> arrays() const = 0;

  /// Returns the name of the first array, by which a file has or lacks the state, and the beginning
  /// that the names of all arrays have.
  [[nodiscard]] virtual std::string first_name() const = 0;
  [[nodiscard]] virtual std::string prefix() const = 0;
  /// Returns whether a file that lacks the first array is loaded all the same. read() is called for
  /// it too, and finds nothing.
  [[nodiscard]] virtual bool is_optional() const { return false; }

  /// Reads and checks the arrays of a file, and returns a function that takes them over and does
  /// not throw. Throws std::invalid_argument, which says what does not fit.
  [[nodiscard]] virtual std::function<void()> read(Find const& find) = 0;
};

/// Throws std::logic_error, with the name of the call in its message, if a list of tensors that was
/// made from a source cannot be loaded, or saved if `saves`, as the source is now.
using SourceCheck = std::function<void(char const* call, bool saves)>;

/// Marks a tensor that a visitor of named tensors gets, and that files may lack.
struct OptionalInFile {};

/// A visitor of named tensors that also takes states of the host, as visit(name, state), and checks
/// of the source, as visit(check): the list of a checkpoint.
template <class Visit>
concept TakesHostState = requires {
  typename std::remove_cvref_t<Visit>::TakesHostState;
};

}  // namespace msstream::detail
