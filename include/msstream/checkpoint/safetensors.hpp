// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/base/output_file.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::checkpoint {

/// The texts that a safetensors file has besides its tensors, by name.
using Metadata = std::map<std::string, std::string>;

/// A tensor in host memory that is to be saved. The caller owns `bytes`, which are row-major in the
/// machine's (little-endian) order.
struct HostTensor {
  std::string name;                 ///< unique in the file
  DType dtype;                      ///< of the elements
  std::vector<std::int64_t> shape;  ///< outermost dimension first; empty: a scalar
  std::span<std::byte const> bytes;

  /// Takes the elements of a tensor, row-major. The caller keeps them until the file is written.
  template <Element T>
  HostTensor(std::string tensor_name,
             std::vector<std::int64_t> tensor_shape,
             std::span<T const> values)
      : name(std::move(tensor_name)),
        dtype(dtype_of<T>),
        shape(std::move(tensor_shape)),
        bytes(std::as_bytes(values)) {}
};

/// Writes a safetensors file (https://github.com/huggingface/safetensors, "Format") as a whole: see
/// OutputFile, also for the exceptions. Throws std::invalid_argument for a name that two tensors
/// have, the name `__metadata__`, text that is not UTF-8, bytes that do not match the shape, and
/// names and metadata of more than 100 million bytes. Equal tensors give equal bytes.
void save_safetensors(std::filesystem::path const& path,
                      std::span<HostTensor const> tensors,
                      Metadata const& metadata = {},
                      OutputFile::Observer observer = {});

/// An open safetensors file whose header has been read and checked: every tensor lies within the
/// file, no two tensors overlap, and every byte belongs to a tensor. The elements are read when
/// they are asked for. Several threads may read at once.
class SafetensorsFile {
 public:
  /// A tensor of the file.
  struct Tensor {
    /// The element type in the words of the format, such as `F32` or `BOOL`.
    std::string type;
    /// The element type; empty for types that tensors of this library cannot have.
    std::optional<DType> dtype;
    std::vector<std::int64_t> shape;  ///< outermost dimension first; empty: a scalar
    std::uint64_t begin;              ///< the position in the file of the first byte
    std::uint64_t bytes;              ///< size of all elements
  };

  /// Opens the file, and reads and checks its header. Throws std::invalid_argument, whose message
  /// has the path and what is wrong, and std::system_error if the file cannot be read.
  explicit SafetensorsFile(std::filesystem::path const& path);
  SafetensorsFile(SafetensorsFile const&) = delete;
  SafetensorsFile& operator=(SafetensorsFile const&) = delete;
  ~SafetensorsFile();

  /// Returns the path with which the file was opened.
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  /// Returns the texts of the file, without its tensors.
  [[nodiscard]] Metadata const& metadata() const noexcept { return metadata_; }
  /// Returns all tensors of the file by name.
  [[nodiscard]] std::map<std::string, Tensor> const& tensors() const noexcept { return tensors_; }

  /// Returns the tensor named `name`. Throws std::invalid_argument, with a list of names, if there
  /// is none.
  [[nodiscard]] Tensor const& tensor(std::string const& name) const;

  /// Reads the bytes [begin, begin + to.size()) of a tensor of this file. Throws
  /// std::invalid_argument for a range beyond the tensor, and std::system_error if the file cannot
  /// be read or has become shorter.
  void read(Tensor const& from, std::uint64_t begin, std::span<std::byte> to) const;

  /// Returns the elements of a tensor. Throws std::invalid_argument if its element type or shape is
  /// not the expected one.
  template <Element T>
  [[nodiscard]] std::vector<T> values(std::string const& name,
                                      std::vector<std::int64_t> const& shape) const {
    Tensor const& found = expect(name, dtype_of<T>, shape);
    std::vector<T> out(static_cast<std::size_t>(found.bytes) / sizeof(T));
    read(found, 0, std::as_writable_bytes(std::span(out)));
    return out;
  }

 private:
  void read_header(std::uint64_t file_bytes);
  void parse_header(std::string_view header, std::uint64_t data_begin, std::uint64_t data_bytes);
  void read_at(std::uint64_t position, std::span<std::byte> to) const;
  [[nodiscard]] Tensor const& expect(std::string const& name,
                                     DType dtype,
                                     std::vector<std::int64_t> const& shape) const;

  std::filesystem::path path_;
  int descriptor_;
  Metadata metadata_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace msstream::checkpoint
