// SPDX-License-Identifier: Apache-2.0
#include <msstream/data/detail/csv_record.hpp>

#include <algorithm>
#include <utility>

namespace msstream::data::detail {

bool RecordScanner::step(char byte) {
  if (state_ == State::quoted) {
    state_ = byte == '"' ? State::behind_quote : State::quoted;
    return false;
  }
  if (byte == '"') {
    // A quote right after a quote is the second of a doubled pair. Anywhere but at the start of a
    // value, a quote is text.
    state_ = state_ == State::in_value ? State::in_value : State::quoted;
  } else if (byte == '\n' || byte == quoting_->separator) {
    state_ = State::at_value;
  } else if (!(byte == ' ' && quoting_->padded && state_ == State::at_value)) {
    state_ = State::in_value;
  }
  return byte == '\n';
}

std::size_t RecordScanner::last_end(std::string_view bytes) {
  std::size_t end = 0;
  std::size_t next = 0;
  if (!quoting_ || (state_ != State::quoted && state_ != State::behind_quote &&
                    bytes.find('"') == std::string_view::npos)) {
    end = bytes.rfind('\n') + 1;  // npos + 1 is 0
    next = end;
    state_ = end > 0 ? State::at_value : state_;
    if (!quoting_) {
      return end;
    }
  }
  for (; next < bytes.size(); ++next) {
    end = step(bytes[next]) ? next + 1 : end;
  }
  return end;
}

std::size_t RecordScanner::first_end(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (step(bytes[i])) {
      return i + 1;
    }
  }
  return bytes.size();
}

RecordValues split_record(std::string_view record, Quoting quoting) {
  RecordValues found;
  std::int64_t line = 0;
  auto const skip_spaces = [&](std::size_t at) {
    return quoting.padded ? std::min(record.find_first_not_of(' ', at), record.size()) : at;
  };
  for (std::size_t begin = 0;; ++begin) {
    RecordValue value{{}, line};
    std::size_t const at = skip_spaces(begin);
    std::size_t end = 0;
    if (at < record.size() && record[at] == '"') {
      std::size_t from = at + 1;
      end = record.find('"', from);
      for (; end != std::string_view::npos && record.substr(end + 1).starts_with('"');
           end = record.find('"', from)) {
        value.text += record.substr(from, end + 1 - from);
        from = end + 2;
      }
      value.text += record.substr(from, std::min(end, record.size()) - from);
      end = end == std::string_view::npos ? end : skip_spaces(end + 1);
      if (end > record.size() || (end < record.size() && record[end] != quoting.separator)) {
        found.bad = found.bad.value_or(found.values.size());
        end = std::min(record.find(quoting.separator, std::min(end, record.size())), record.size());
      }
      line += std::ranges::count(value.text, '\n');
    } else {
      end = std::min(record.find(quoting.separator, begin), record.size());
      value.text = record.substr(begin, end - begin);
    }
    found.values.push_back(std::move(value));
    if (end == record.size()) {
      return found;
    }
    begin = end;
  }
}

}  // namespace msstream::data::detail
