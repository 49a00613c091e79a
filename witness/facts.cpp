#include "witness/facts.h"

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

Result<Facts> Facts::read(const std::string& path) {
    std::ifstream file(path);
    if (!file) return fail_errno("{}", path);
    const auto json = nlohmann::json::parse(file, nullptr, false);
    if (!json.is_object()) return fail_code(ExitCode::damaged, "{}: isn't what a witness writes", path);
    Facts facts;
    for (const auto& [name, value] : json.items()) {
        if (!value.is_string()) return fail_code(ExitCode::damaged, "{}: {} isn't a text", path, name);
        facts.put(name, value.get<std::string>());
    }
    return facts;
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
