// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/output_file.hpp>
#include <msstream/report/run_report.hpp>

#include <algorithm>
#include <mutex>
#include <type_traits>
#include <vector>

namespace msstream::report {

using detail::JsonWriter;

namespace {

/// The suffix that makes the name of a list that of the member with the distance of its entries.
constexpr char const* kEvery = "_every";

}  // namespace

class RunReport::State {
 public:
  using Held = Value::Held;
  using HeldRow = std::vector<std::pair<std::string, Held>>;
  using Entry = std::variant<Held, HeldRow>;

  explicit State(std::size_t most_entries) : most_entries_(most_entries) {
    require(most_entries >= 2, "RunReport: most_entries is {}; expected at least 2", most_entries);
  }

  void set(std::string_view path, Value value) {
    std::lock_guard const guard(mutex_);
    find(path, Node::Kind::value).value = std::move(value.held_);
  }
  void append(std::string_view path, Value value) {
    append_entry(path, Entry(std::move(value.held_)));
  }
  void append(std::string_view path, Row row) {
    HeldRow held;
    for (auto const& [name, value] : row) {
      require(std::ranges::find(held, name, &HeldRow::value_type::first) == held.end(),
              "RunReport: a row for '{}' with two values named '{}'; expected different names",
              path,
              name);
      held.emplace_back(std::string(name), value.held_);
    }
    append_entry(path, Entry(std::move(held)));
  }

  [[nodiscard]] std::string json() const {
    std::lock_guard const guard(mutex_);
    std::string out;
    JsonWriter writer(out);
    write_object(writer, root_);
    out += '\n';
    return out;
  }

 private:
  struct Member;
  struct Node {
    enum class Kind : std::uint8_t { object, list, value };

    Kind kind = Kind::object;
    std::vector<Member> members;  ///< of an object
    Held value;
    std::vector<Entry> entries;  ///< of a list
    std::size_t every = 1;       ///< the list has entries 0, every, 2 · every …
    std::size_t appended = 0;
  };
  struct Member {
    std::string name;
    Node node;
  };

  static std::string_view name_of(Node::Kind kind) {
    return kind == Node::Kind::object ? "an object"
           : kind == Node::Kind::list ? "a list"
                                      : "a value";
  }

  /// Returns the node at a path. Makes it, and the objects on the way, if there is none.
  Node& find(std::string_view path, Node::Kind kind) {
    require_path(path, kind);
    Node* node = &root_;
    for (std::string_view rest = path;;) {
      auto const end = std::min(rest.find('/'), rest.size());
      bool const is_last = end == rest.size();
      node = &member(*node, rest.substr(0, end), is_last ? kind : Node::Kind::object);
      if (is_last) {
        return *node;
      }
      rest.remove_prefix(end + 1);
    }
  }
  /// Throws std::invalid_argument if the path cannot lead to a node of the kind.
  void require_path(std::string_view path, Node::Kind kind) const {
    Node const* node = &root_;
    for (std::string_view rest = path;;) {
      auto const end = std::min(rest.find('/'), rest.size());
      bool const is_last = end == rest.size();
      auto const name = rest.substr(0, end);
      require(!name.empty(), "RunReport: the path '{}' has an empty name", path);
      if (node != nullptr) {
        auto const found = std::ranges::find(node->members, name, &Member::name);
        if (found == node->members.end()) {
          require_free(*node, path, name, is_last ? kind : Node::Kind::object);
        }
        node = found != node->members.end() ? &found->node : nullptr;
      }
      auto const expected = is_last ? kind : Node::Kind::object;
      require(node == nullptr || node->kind == expected,
              "RunReport: '{}' of the path '{}' is {}; expected {}",
              name,
              path,
              name_of(node != nullptr ? node->kind : expected),
              name_of(expected));
      if (is_last) {
        return;
      }
      rest.remove_prefix(end + 1);
    }
  }
  /// Throws std::invalid_argument if the name of a new member is what a list's distance is called,
  /// or if the new member is a list whose distance would be called as another member is.
  static void require_free(Node const& object,
                           std::string_view path,
                           std::string_view name,
                           Node::Kind kind) {
    for (auto const& [other, node] : object.members) {
      require(node.kind != Node::Kind::list || name != other + kEvery,
              "RunReport: '{}' of the path '{}' is the name for the distance of the entries of the "
              "list '{}'; expected another name",
              name,
              path,
              other);
      require(kind != Node::Kind::list || other != std::string(name) + kEvery,
              "RunReport: the list '{}' of the path '{}' beside '{}', the name for the distance of "
              "its entries; expected another name",
              name,
              path,
              other);
    }
  }
  static Node& member(Node& of, std::string_view name, Node::Kind kind) {
    auto const found = std::ranges::find(of.members, name, &Member::name);
    if (found != of.members.end()) {
      return found->node;
    }
    auto& made = of.members.emplace_back(Member{std::string(name), {}});
    made.node.kind = kind;
    return made.node;
  }

  void append_entry(std::string_view path, Entry entry) {
    std::lock_guard const guard(mutex_);
    auto& list = find(path, Node::Kind::list);
    if (list.appended++ % list.every != 0) {
      return;
    }
    if (list.entries.size() == most_entries_) {
      // Keeps entries 0, 2, 4 …
      for (std::size_t i = 1; 2 * i < list.entries.size(); ++i) {
        list.entries[i] = std::move(list.entries[2 * i]);
      }
      list.entries.resize((list.entries.size() + 1) / 2);
      list.every *= 2;
      if ((list.appended - 1) % list.every != 0) {
        return;
      }
    }
    list.entries.push_back(std::move(entry));
  }

  static void write_held(JsonWriter& writer, Held const& held) {
    std::visit(
        [&](auto const& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
            writer.value(std::numeric_limits<double>::quiet_NaN());  // written as null
          } else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
            writer.value(std::string_view(value));
          } else {
            writer.value(value);
          }
        },
        held);
  }
  static void write_object(JsonWriter& writer, Node const& object) {
    writer.begin_object(object.members.empty() ? JsonWriter::Layout::line
                                               : JsonWriter::Layout::lines);
    for (auto const& [name, node] : object.members) {
      writer.key(name);
      switch (node.kind) {
        case Node::Kind::object:
          write_object(writer, node);
          break;
        case Node::Kind::list:
          write_list(writer, node);
          if (node.every > 1) {
            writer.member(name + kEvery, node.every);
          }
          break;
        case Node::Kind::value:
          write_held(writer, node.value);
          break;
      }
    }
    writer.end_object();
  }
  static void write_list(JsonWriter& writer, Node const& list) {
    bool const has_rows = std::ranges::any_of(
        list.entries, [](Entry const& entry) { return std::holds_alternative<HeldRow>(entry); });
    writer.begin_array(has_rows ? JsonWriter::Layout::lines : JsonWriter::Layout::line);
    for (auto const& entry : list.entries) {
      if (auto const* const held = std::get_if<Held>(&entry)) {
        write_held(writer, *held);
        continue;
      }
      writer.begin_object();
      for (auto const& [name, held] : std::get<HeldRow>(entry)) {
        writer.key(name);
        write_held(writer, held);
      }
      writer.end_object();
    }
    writer.end_array();
  }

  std::size_t const most_entries_;
  std::mutex mutable mutex_;
  Node root_;
};

RunReport::RunReport(std::size_t most_entries) : state_(std::make_unique<State>(most_entries)) {}

RunReport::~RunReport() = default;

void RunReport::set(std::string_view path, Value value) {
  state_->set(path, std::move(value));
}

void RunReport::append(std::string_view path, Value value) {
  state_->append(path, std::move(value));
}

void RunReport::append(std::string_view path, Row row) {
  state_->append(path, row);
}

std::string RunReport::json() const {
  return state_->json();
}

void RunReport::write(std::filesystem::path const& path) const {
  write_file(path, json(), OutputFile::Kind::streamed);
}

}  // namespace msstream::report
