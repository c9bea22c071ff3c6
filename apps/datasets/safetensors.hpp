// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/base/output_file.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::datasets {

/// A tensor to be saved. The caller owns `bytes`, which are row-major in the machine's
/// (little-endian) order.
struct SavedTensor {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::span<std::byte const> bytes;

  template <Element T>
  SavedTensor(std::string tensor_name,
              std::vector<std::int64_t> tensor_shape,
              std::span<T const> values)
      : name(std::move(tensor_name)),
        dtype(dtype_of<T>),
        shape(std::move(tensor_shape)),
        bytes(std::as_bytes(values)) {}
};

using TensorMetadata = std::map<std::string, std::string>;

/// Writes a safetensors file (https://github.com/huggingface/safetensors, "Format"), atomically:
/// see OutputFile, also for the exceptions. Throws std::invalid_argument for a name that two
/// tensors have, the name `__metadata__`, text that is not UTF-8, and bytes that do not match the
/// shape. Equal tensors give equal bytes.
void save_safetensors(std::filesystem::path const& path,
                      std::span<SavedTensor const> tensors,
                      TensorMetadata const& metadata = {},
                      OutputFile::Observer observer = {});

/// A safetensors file, read into memory and checked: every tensor lies within the file, no two
/// tensors overlap, and every byte belongs to a tensor. Dtypes F32, F16, BF16, I32, I64, U8.
class SafetensorsFile {
 public:
  /// Reads and checks the file. Throws DataError, whose message has the path and what is wrong.
  explicit SafetensorsFile(std::filesystem::path const& path);
  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;
  SafetensorsFile(SafetensorsFile const&) = delete;  // tensors() refers to this object's bytes
  SafetensorsFile& operator=(SafetensorsFile const&) = delete;
  ~SafetensorsFile() = default;

  struct Tensor {
    DType dtype;
    std::vector<std::int64_t> shape;
    std::span<std::byte const> bytes;  ///< valid while the file object exists; not aligned
  };

  [[nodiscard]] TensorMetadata const& metadata() const noexcept { return metadata_; }
  [[nodiscard]] std::map<std::string, Tensor> const& tensors() const noexcept { return tensors_; }

  /// Returns the tensor named `name`. Throws DataError, with a list of all names, if there is none.
  [[nodiscard]] Tensor const& tensor(std::string const& name) const;

  /// Returns a copy of a tensor's elements. Throws DataError if its dtype or shape is not the
  /// expected one.
  template <Element T>
  [[nodiscard]] std::vector<T> values(std::string const& name,
                                      std::vector<std::int64_t> const& shape) const {
    Tensor const& found = tensor(name);
    check(name, found, dtype_of<T>, shape);
    std::vector<T> out(found.bytes.size() / sizeof(T));
    if (!out.empty()) {
      std::memcpy(out.data(), found.bytes.data(), found.bytes.size());
    }
    return out;
  }

 private:
  void read_header(std::string_view header);
  void check(std::string const& name,
             Tensor const& found,
             DType dtype,
             std::vector<std::int64_t> const& shape) const;

  std::string path_;
  std::vector<std::byte> data_;
  TensorMetadata metadata_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace msstream::datasets
