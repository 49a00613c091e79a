// JSON as the protocol and the state file use it.
#pragma once

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/json_text.h"
#include "common/wire/events.h"

namespace cairn::coordinator {

using Json = nlohmann::json;

// Takes an event; `droppable` ones (progress) may be left out for a slow reader.
using Sink = std::function<void(const Json& event, bool droppable)>;
using Reply = std::function<void(const Json& event)>;

// Deeper than any message of ours nests (8), and far from what overflows the stack when it is copied or
// written; or with more in it: a value of two bytes takes eighty when it is read.
[[nodiscard]] inline bool is_too_much(std::string_view text) {
    constexpr std::size_t limit = 64, most_values = 1 << 20;
    std::size_t depth = 0, values = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char byte = text[i];
        if (!quoted && (byte == ',' || byte == '[' || byte == '{') && ++values > most_values) return true;
        if (quoted && byte == '\\')
            ++i;
        else if (byte == '"')
            quoted = !quoted;
        else if (!quoted && (byte == '[' || byte == '{') && ++depth > limit)
            return true;
        else if (!quoted && (byte == ']' || byte == '}') && depth > 0)
            --depth;
    }
    return false;
}

// What somebody has sent: an object, or null if it is none, nests too deeply or has too much in it.
[[nodiscard]] inline Json parse_object(std::string_view text) {
    if (is_too_much(text)) return nullptr;
    Json object = Json::parse(text, nullptr, false);
    return object.is_object() ? object : Json();
}

// Names of processes and paths need not be UTF-8: what isn't is replaced, never thrown over.
[[nodiscard]] inline std::string text_of(const Json& json, int indent = -1) {
    return json_text(json, indent);
}

// The field, or `fallback` where it is missing, null or of another type. Needs no exception: what a peer
// sends may be anything.
[[nodiscard]] inline std::string get_string(const Json& json, const char* key,
                                            const std::string& fallback = {}) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : fallback;
}
[[nodiscard]] inline std::int64_t get_number(const Json& json, const char* key, std::int64_t fallback = 0) {
    const auto found = json.find(key);
    if (found == json.end()) return fallback;
    if (found->is_number_integer()) return found->get<std::int64_t>();
    if (!found->is_number_float()) return fallback;
    const double value = found->get<double>();
    return value > -9e18 && value < 9e18 ? static_cast<std::int64_t>(value) : fallback;
}
[[nodiscard]] inline double get_real(const Json& json, const char* key, double fallback = 0) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : fallback;
}

// The last event of a request that wasn't done.
[[nodiscard]] inline Json failed(ExitCode code, const std::string& reason) {
    return {{"event", "failed"}, {"code", static_cast<int>(code)}, {"reason", reason}};
}
[[nodiscard]] inline Json failed(const Error& error) {
    return failed(error.code, error.what);
}
// What a capture, or another host's coordinator, says why it has failed.
[[nodiscard]] inline Error error_of(const wire::Failed& said) {
    Error why{said.reason, 0, static_cast<ExitCode>(std::clamp<std::int64_t>(said.code, 1, 6))};
    why.passing = said.passing;
    return why;
}
[[nodiscard]] inline bool is_last(const Json& event) {
    const std::string kind = get_string(event, "event");
    return kind == "done" || kind == "failed";
}

}  // namespace cairn::coordinator
