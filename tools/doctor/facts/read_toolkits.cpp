// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/system_files.hpp"
#include "doctor/facts/toolkit.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace msstream::doctor {
namespace fs = std::filesystem;
namespace {

/// Returns the number at the beginning of a text; 0 if there is none.
int leading_number(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Returns the number behind the first `before` of a text; 0 if there is none.
int number_behind(std::string_view text, std::string_view before) {
  auto const at = text.find(before);
  return at == std::string_view::npos ? 0 : leading_number(text.substr(at + before.size()));
}

/// Returns 12040 for `12.4` or `12.4.1`; 0 for other texts.
int version_of_text(std::string_view text) {
  auto const dot = text.find('.');
  int const major = leading_number(text);
  return dot == std::string_view::npos || major == 0
             ? 0
             : major * 1000 + leading_number(text.substr(dot + 1)) * 10;
}

/// Reads files below a folder that stands for `/`. Paths that it takes and returns are those of
/// the computer that the folder describes.
class ToolkitReader {
 public:
  ToolkitReader(Variables const& variables, fs::path const& root)
      : variables_(variables), root_(fs::weakly_canonical(root)) {}

  ToolkitFacts read() {
    find_chosen();
    for (auto const* const name : {"CUDA_HOME", "CUDA_PATH"}) {
      if (auto const folder = value_of(name); !folder.empty() && !add(folder, name)) {
        facts_.wrong_variables.emplace_back(name, folder);
      }
    }
    add_usual_folders();
    find_compiler();
    find_headers();
    return std::move(facts_);
  }

 private:
  [[nodiscard]] std::string value_of(std::string_view name) const {
    auto const found = variables_.find(name);
    return found == variables_.end() ? std::string() : found->second;
  }
  [[nodiscard]] fs::path inside(fs::path const& path) const { return root_ / path.relative_path(); }
  [[nodiscard]] bool exists(fs::path const& path) const {
    std::error_code ignored;
    return fs::exists(inside(path), ignored);
  }
  [[nodiscard]] std::string text(fs::path const& path) const { return text_of_file(inside(path)); }
  /// Returns the path without links.
  [[nodiscard]] fs::path resolved(fs::path const& path) const {
    std::error_code failed;
    auto const whole = fs::canonical(inside(path), failed);
    auto const below = whole.lexically_relative(root_);
    return failed || below.empty() || *below.begin() == ".." ? path : "/" / below;
  }
  /// Returns the first file of a name in the folders of PATH; empty if there is none.
  [[nodiscard]] fs::path on_path(std::string_view name) const {
    auto const all = value_of("PATH");
    std::string_view folders = all;
    while (!folders.empty()) {
      auto const colon = folders.find(':');
      auto const folder = folders.substr(0, colon);
      folders.remove_prefix(colon == std::string_view::npos ? folders.size() : colon + 1);
      if (folder.starts_with('/') && exists(fs::path(folder) / name)) {
        return fs::path(folder) / name;
      }
    }
    return {};
  }
  /// Returns the program that a variable names, by its path or by a name on PATH; empty if the
  /// variable is not set or names none.
  [[nodiscard]] fs::path program_of(char const* variable) const {
    auto const words = words_of(value_of(variable));  // arguments may follow
    if (words.empty()) {
      return {};
    }
    fs::path const named = words.front();
    return !named.is_absolute() ? on_path(named.string()) : exists(named) ? named : fs::path();
  }

  /// Returns the folder of the toolkit of an nvcc. The file may be a link, or a script of a line
  /// that starts the compiler, as distributions have it.
  [[nodiscard]] fs::path folder_of_nvcc(fs::path const& nvcc) const {
    auto program = resolved(nvcc);
    std::error_code ignored;
    constexpr std::uintmax_t kMostOfScript = 4096;
    if (auto const bytes = fs::file_size(inside(program), ignored);
        !ignored && bytes < kMostOfScript) {
      if (auto const script = text(program); script.starts_with("#!")) {
        for (auto word : words_of(script)) {
          std::erase_if(word, [](char c) { return c == '"' || c == '\''; });
          if (word.starts_with('/') && word.ends_with("/nvcc") && exists(word)) {
            program = resolved(word);
            break;
          }
        }
      }
    }
    return program.parent_path().filename() == "bin" ? program.parent_path().parent_path()
                                                     : program.parent_path();
  }

  /// Adds the toolkit in a folder, or another name of one that was found. Returns its place;
  /// nothing if the folder has none.
  std::optional<std::size_t> add(fs::path const& named, std::string const& by) {
    auto const folder = resolved(named);
    bool const has_nvcc = exists(folder / "bin/nvcc");
    if (!has_nvcc && !exists(folder / "version.json") &&
        !exists(folder / "include/cuda_runtime_api.h")) {
      return std::nullopt;
    }
    auto found = std::ranges::find(facts_.toolkits, folder.string(), &Toolkit::folder);
    if (found == facts_.toolkits.end()) {
      Toolkit toolkit;
      toolkit.folder = folder.string();
      toolkit.version = version_in(folder);
      toolkit.nvcc = has_nvcc ? (folder / "bin/nvcc").string() : "";
      auto const limits = text(headers_of(folder) / "crt/host_config.h");
      toolkit.most_gcc = number_behind(limits, "gcc versions later than ");
      toolkit.most_clang =
          std::max(0, number_behind(limits, "clang version must be less than ") - 1);
      facts_.toolkits.push_back(std::move(toolkit));
      found = facts_.toolkits.end() - 1;
    }
    if (std::ranges::count(found->named_by, by) == 0 && by != found->folder) {
      found->named_by.push_back(by);
    }
    return static_cast<std::size_t>(found - facts_.toolkits.begin());
  }

  /// Returns the folder of headers. Distributions put it apart from the compiler's.
  [[nodiscard]] fs::path headers_of(fs::path const& folder) const {
    return folder.string().starts_with("/usr/lib/") && !exists(folder / "include")
               ? fs::path("/usr/include")
               : folder / "include";
  }
  [[nodiscard]] int version_in(fs::path const& folder) const {
    auto const all = nlohmann::json::parse(text(folder / "version.json"), nullptr, false);
    if (all.is_object() && all.contains("cuda") && all["cuda"].is_object()) {
      auto const& version = all["cuda"].value("version", nlohmann::json());
      if (int const number =
              version.is_string() ? version_of_text(version.get<std::string>()) : 0) {
        return number;
      }
    }
    for (auto const& [header, name] : {std::pair{"cuda.h", "#define CUDA_VERSION"},
                                       std::pair{"cuda_runtime_api.h", "#define CUDART_VERSION"}}) {
      if (int const number = leading_number(value_after(text(headers_of(folder) / header), name))) {
        return number;
      }
    }
    return 0;
  }

  /// Finds the nvcc that CMake takes: of CUDACXX, else of PATH, else of CUDA_PATH.
  void find_chosen() {
    auto const choose = [&](fs::path const& nvcc, char const* by) {
      facts_.chosen_by = by;
      facts_.chosen = add(folder_of_nvcc(nvcc), by);
      if (!facts_.chosen) {  // its folder has another form
        Toolkit toolkit;
        toolkit.folder = folder_of_nvcc(nvcc).string();
        toolkit.nvcc = nvcc.string();
        toolkit.named_by = {by};
        facts_.chosen = facts_.toolkits.size();
        facts_.toolkits.push_back(std::move(toolkit));
      }
    };
    auto const named = program_of("CUDACXX");
    auto const found = on_path("nvcc");
    if (!value_of("CUDACXX").empty() && named.empty()) {
      facts_.wrong_variables.emplace_back("CUDACXX", value_of("CUDACXX"));
    }
    if (!named.empty()) {
      choose(named, "CUDACXX");
    } else if (!value_of("CUDACXX").empty()) {
      // CMake ends with an error.
    } else if (!found.empty()) {
      choose(found, "PATH");
    } else if (auto const folder = value_of("CUDA_PATH");
               !folder.empty() && exists(fs::path(folder) / "bin/nvcc")) {
      choose(fs::path(folder) / "bin/nvcc", "CUDA_PATH");
    }
    if (!named.empty() && !found.empty()) {
      add(folder_of_nvcc(found), "PATH");
    }
  }

  void add_usual_folders() {
    std::error_code ignored;
    std::set<std::string> folders;
    for (fs::directory_iterator entry(inside("/usr/local"), ignored), end; entry != end;
         entry.increment(ignored)) {
      if (auto name = entry->path().filename().string(); name.starts_with("cuda")) {
        folders.insert("/usr/local/" + name);
      }
    }
    for (auto const& folder : folders) {
      add(folder, folder);
    }
  }

  /// Finds the compiler of CXX, or the first of CMake's names on PATH.
  void find_compiler() {
    auto path = program_of("CXX");
    if (value_of("CXX").empty()) {
      for (auto const* const name : {"c++", "g++", "clang++"}) {
        path = path.empty() ? on_path(name) : path;
      }
    } else if (path.empty()) {
      facts_.wrong_variables.emplace_back("CXX", value_of("CXX"));
    }
    if (path.empty()) {
      return;
    }
    auto const real = resolved(path);
    auto const name = real.filename().string();
    facts_.compiler.path = path.string();
    facts_.compiler.is_clang = name.find("clang") != std::string::npos;
    // Names are such as x86_64-linux-gnu-g++-12, and /usr/lib/llvm-14/bin/clang.
    auto const dash = name.rfind('-');
    facts_.compiler.major = dash == std::string::npos ? 0 : leading_number(name.substr(dash + 1));
    if (facts_.compiler.major == 0 && facts_.compiler.is_clang) {
      facts_.compiler.major = number_behind(real.string(), "/llvm-");
    } else if (facts_.compiler.major == 0 && name.ends_with("g++")) {
      facts_.compiler.major = newest_gcc(real.parent_path().parent_path() / "lib/gcc");
    }
  }
  /// Returns the newest version of gcc that has a folder, such as lib/gcc/x86_64-linux-gnu/12.
  [[nodiscard]] int newest_gcc(fs::path const& folder) const {
    int newest = 0;
    std::error_code ignored;
    for (fs::directory_iterator machine(inside(folder), ignored), end; machine != end;
         machine.increment(ignored)) {
      for (fs::directory_iterator version(machine->path(), ignored); version != end;
           version.increment(ignored)) {
        newest = std::max(newest, leading_number(version->path().filename().string()));
      }
    }
    return newest;
  }

  void find_headers() {
    std::vector<fs::path> folders;  // where CMake looks
    if (facts_.chosen) {
      folders.emplace_back(fs::path(facts_.toolkits[*facts_.chosen].folder) / "include");
    }
    for (auto const* const usual : {"/usr/local/include", "/usr/include"}) {
      folders.emplace_back(usual);
    }
    facts_.nccl = header("nccl.h", folders);
    folders.emplace_back("/usr/local/cuda/include");
    folders.emplace_back("/usr/local/cuda/extras/CUPTI/include");
    facts_.cupti = header("cupti.h", folders);
    if (!facts_.nccl.file.empty()) {
      auto const all = text(facts_.nccl.file);
      auto const number = [&](char const* part) { return leading_number(value_after(all, part)); };
      if (int const major = number("#define NCCL_MAJOR")) {
        facts_.nccl.version = fmt::format(
            "{}.{}.{}", major, number("#define NCCL_MINOR"), number("#define NCCL_PATCH"));
      }
    }
  }
  /// Looks for a header in `folders`, and then in those of all toolkits.
  [[nodiscard]] FoundHeader header(char const* name, std::vector<fs::path> const& folders) const {
    for (auto const& folder : folders) {
      if (exists(folder / name)) {
        return {(folder / name).string(), {}, true};
      }
    }
    for (auto const& toolkit : facts_.toolkits) {
      for (auto const* const part : {"include", "extras/CUPTI/include"}) {
        if (auto const file = fs::path(toolkit.folder) / part / name; exists(file)) {
          return {file.string(), {}, false};
        }
      }
    }
    return {};
  }

  Variables const& variables_;
  fs::path root_;
  ToolkitFacts facts_;
};

}  // namespace

Variables toolkit_variables() {
  Variables variables;
  for (auto const* const name : {"CUDACXX", "CUDA_HOME", "CUDA_PATH", "CXX", "PATH"}) {
    if (auto const* const value = std::getenv(name)) {
      variables.emplace(name, value);
    }
  }
  return variables;
}

ToolkitFacts read_toolkits(Variables const& variables, fs::path const& root) {
  return ToolkitReader(variables, root).read();
}

}  // namespace msstream::doctor
