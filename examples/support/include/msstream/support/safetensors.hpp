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

namespace msstream::support {

/// A tensor to be saved; `bytes` stay the caller's, row-major in the machine's (little-endian)
/// order.
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
/// see OutputFile, also for what it throws. Throws std::invalid_argument for a name that is taken,
/// `__metadata__`, text that is not UTF-8, and bytes that do not match the shape. The same tensors
/// give the same bytes.
void save_safetensors(std::filesystem::path const& path,
                      std::span<SavedTensor const> tensors,
                      TensorMetadata const& metadata = {},
                      SaveObserver observer = {});

/// A safetensors file, read into memory and checked: every tensor lies within the file, none
/// overlaps another, and no byte belongs to none. Dtypes F32, F16, BF16, I32, I64, U8.
class SafetensorsFile {
 public:
  /// Throws DataError, naming the file and what is wrong with it.
  explicit SafetensorsFile(std::filesystem::path const& path);
  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;
  SafetensorsFile(SafetensorsFile const&) = delete;  // tensors() views this object's bytes
  SafetensorsFile& operator=(SafetensorsFile const&) = delete;
  ~SafetensorsFile() = default;

  struct Tensor {
    DType dtype;
    std::vector<std::int64_t> shape;
    std::span<std::byte const> bytes;  ///< valid as long as the file object; not aligned
  };

  [[nodiscard]] TensorMetadata const& metadata() const noexcept { return metadata_; }
  [[nodiscard]] std::map<std::string, Tensor> const& tensors() const noexcept { return tensors_; }

  /// Throws DataError when there is none of this name; the message lists those that there are.
  [[nodiscard]] Tensor const& tensor(std::string const& name) const;

  /// A copy of the elements. Throws DataError for another dtype or shape than the expected.
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

}  // namespace msstream::support
