// SPDX-License-Identifier: Apache-2.0
// Fuzzes the writer of safetensors files with models made from the input. A model must either be
// refused by std::invalid_argument without leaving a file, or be saved and read back unchanged.
#include "saved_model.hpp"

#include <algorithm>
#include <array>

namespace {

using namespace msstream;
using fuzz::expect;

/// Splits the fuzzer's input into parts. Reads beyond the end of the input return zeros.
class Bytes {
 public:
  explicit Bytes(std::string_view input) : rest_(input) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::uint8_t byte() { return empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(take(1)[0]); }
  /// Reads one byte as a length, and returns the following bytes of that length.
  std::string word() { return std::string(take(byte())); }
  std::string_view take(std::size_t count) {
    auto const taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view rest_;
};

fuzz::OwnedTensor tensor_of(Bytes& input) {
  constexpr std::array dtypes{
      DType::float32, DType::float16, DType::bfloat16, DType::int32, DType::int64, DType::uint8};
  constexpr std::array words{"F32", "F16", "BF16", "I32", "I64", "U8"};
  auto const type = input.byte() % dtypes.size();
  fuzz::OwnedTensor tensor{words[type], dtypes[type], {}, {}};
  std::size_t count = bytes_of(dtypes[type]);
  for (int rank = input.byte() % 5; rank > 0; --rank) {
    tensor.shape.push_back(input.byte() % 5);
    count *= static_cast<std::size_t>(tensor.shape.back());
  }
  auto const values = input.take(count);
  tensor.bytes.resize(count);
  std::ranges::copy(std::as_bytes(std::span(values)), tensor.bytes.begin());
  return tensor;
}

fuzz::Model model_of(Bytes input) {
  fuzz::Model model;
  for (int entries = input.byte() % 4; entries > 0; --entries) {
    auto key = input.word();
    model.metadata.insert_or_assign(std::move(key), input.word());
  }
  while (!input.empty()) {
    auto name = input.word();
    model.tensors.insert_or_assign(std::move(name), tensor_of(input));
  }
  return model;
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  static fuzz::ScratchFolder const folder;
  auto const path = folder / "model";
  std::filesystem::remove(path);
  auto const model = model_of(Bytes(fuzz::as_text(bytes, count)));
  try {
    fuzz::save_model(path, model);
  } catch (std::invalid_argument const& error) {
    expect(std::string_view(error.what()).starts_with("safetensors: "), "what refused it?");
    expect(!std::filesystem::exists(path), "a model that was refused left a file");
    return 0;
  }
  expect(!model.tensors.contains("__metadata__"), "a tensor took the name of the metadata");
  expect(fuzz::load_model(path) == model, "it does not come back as it was saved");
  return 0;
}
