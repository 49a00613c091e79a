#include "witness/facts.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace cairn::witness {

void Facts::put_lines(const std::string& prefix, const std::string& text) {
    std::istringstream lines(text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number)
        put(fmt::format("{}/{:02}", prefix, number), line);
}

void Facts::put_bytes(const std::string& name, std::span<const unsigned char> bytes) {
    constexpr std::size_t legible = 64;
    std::string text;
    for (const unsigned char byte : bytes.first(std::min(bytes.size(), legible)))
        text += fmt::format("{:02x}", byte);
    if (bytes.size() > legible)
        text += fmt::format("... {} bytes, hash {:016x}", bytes.size(), hash_of(bytes));
    put(name, std::move(text));
}

void Facts::put_errno(const std::string& name, int number) {
    put(name, std::strerror(number));
}

nlohmann::json Facts::json() const {
    return seen_;
}

Result<std::vector<Facts>> read_looks(const std::string& path) {
    std::ifstream file(path);
    if (!file) return fail_errno("{}", path);
    auto json = nlohmann::json::parse(file, nullptr, false);
    if (json.is_object()) json = nlohmann::json::array({json});
    const auto is_look = [](const nlohmann::json& look) { return look.is_object(); };
    if (!json.is_array() || json.empty() || !std::ranges::all_of(json, is_look))
        return fail_code(ExitCode::damaged, "{}: isn't what a witness writes", path);
    std::vector<Facts> looks;
    for (const auto& look : json) {
        Facts& facts = looks.emplace_back();
        for (const auto& [name, value] : look.items()) {
            if (!value.is_string()) return fail_code(ExitCode::damaged, "{}: {} isn't a text", path, name);
            facts.put(name, value.get<std::string>());
        }
    }
    return looks;
}

std::uint64_t hash_of(std::span<const unsigned char> bytes) {
    constexpr std::uint64_t prime = 1099511628211U;
    std::uint64_t hash = 14695981039346656037U;
    while (bytes.size() >= sizeof hash) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data(), sizeof word);
        hash = (hash ^ word) * prime;
        hash ^= hash >> 29U;  // what is high in a word reaches the low bits as well
        bytes = bytes.subspan(sizeof word);
    }
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * prime;
    return hash;
}

}  // namespace cairn::witness
