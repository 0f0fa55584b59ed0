// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/xml_reader.h"

#include <charconv>
#include <stdexcept>

#include "remote/character.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kMostDepth = 32;

[[noreturn]] void refuse(const char* problem) {
  throw std::runtime_error(std::string("bad XML: ") + problem);
}

void append_entity(std::string& text, std::string_view name) {
  if (name == "lt") {
    text += '<';
  } else if (name == "gt") {
    text += '>';
  } else if (name == "amp") {
    text += '&';
  } else if (name == "quot") {
    text += '"';
  } else if (name == "apos") {
    text += '\'';
  } else if (name.starts_with('#')) {
    const bool is_hex = name.starts_with("#x");
    name.remove_prefix(is_hex ? 2 : 1);
    std::uint32_t code = 0;
    const auto [end, problem] =
        std::from_chars(name.data(), name.data() + name.size(), code, is_hex ? 16 : 10);
    if (problem != std::errc() || end != name.data() + name.size()) refuse("a number of a character");
    if (code == 0) refuse("a character that there is not");
    append_character(text, code);
  } else {
    refuse("an unknown entity");
  }
}

std::string decoded(std::string_view raw) {
  std::string text;
  while (!raw.empty()) {
    const std::size_t mark = std::min(raw.find('&'), raw.size());
    text += raw.substr(0, mark);
    raw.remove_prefix(mark);
    if (raw.empty()) break;
    const std::size_t end = raw.find(';');
    if (end == std::string_view::npos) refuse("an entity without its end");
    append_entity(text, raw.substr(1, end - 1));
    raw.remove_prefix(end + 1);
  }
  return text;
}

/// Cuts `text` after the first `end` and returns what was before it.
std::string_view cut_until(std::string_view& text, std::string_view end) {
  const std::size_t found = text.find(end);
  if (found == std::string_view::npos) refuse("it ends inside of a tag");
  const std::string_view before = text.substr(0, found);
  text.remove_prefix(found + end.size());
  return before;
}

/// The name without what stands before ":".
std::string local_name(std::string_view tag) {
  const std::string_view name = tag.substr(0, tag.find_first_of(" \t\r\n/"));
  const std::size_t colon = name.find(':');
  return std::string(colon == std::string_view::npos ? name : name.substr(colon + 1));
}

}  // namespace

void read_xml(std::string_view text,
              const std::function<void(const std::vector<std::string>& path, const std::string& value)>& leaf,
              const std::function<void(const std::vector<std::string>& path)>& closed) {
  std::vector<std::string> path;
  std::string value;
  bool is_leaf = false;
  const auto close = [&] {
    if (is_leaf) leaf(path, value);
    if (closed) closed(path);
    is_leaf = false;
    path.pop_back();
  };
  while (!text.empty()) {
    const std::size_t mark = std::min(text.find('<'), text.size());
    if (is_leaf) value += decoded(text.substr(0, mark));
    text.remove_prefix(mark);
    if (text.empty()) break;
    text.remove_prefix(1);
    if (text.starts_with("!--")) {
      text.remove_prefix(3);
      cut_until(text, "-->");
    } else if (text.starts_with("![CDATA[")) {
      text.remove_prefix(8);
      const std::string_view data = cut_until(text, "]]>");
      if (is_leaf) value += data;
    } else if (text.starts_with('?') || text.starts_with('!')) {
      cut_until(text, ">");
    } else if (text.starts_with('/')) {
      text.remove_prefix(1);
      const std::string name = local_name(cut_until(text, ">"));
      if (path.empty() || path.back() != name) refuse("an end without its begin");
      close();
    } else {
      const std::string_view tag = cut_until(text, ">");
      if (path.size() == kMostDepth) refuse("elements are nested too deep");
      path.push_back(local_name(tag));
      if (path.back().empty()) refuse("a tag without a name");
      value.clear();
      is_leaf = true;
      if (tag.ends_with('/')) close();
    }
  }
  if (!path.empty()) refuse("it ends inside of an element");
}

std::string xml_value(std::string_view text, const std::string& name) {
  std::string found;
  bool has_found = false;
  try {
    read_xml(text, [&](const std::vector<std::string>& path, const std::string& value) {
      if (has_found || path.back() != name) return;
      found = value;
      has_found = true;
    });
  } catch (const std::runtime_error&) {
    // What was found before the damage is good enough for a message.
  }
  return found;
}

}  // namespace torch_distinput
