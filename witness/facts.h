// What a witness has seen: each thing has a name, which is a path ("1234/status/SigBlk"), and a value as the
// kernel has shown it.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"

namespace cairn::witness {

class Facts {
  public:
    void put(const std::string& name, std::string value) { seen_.insert_or_assign(name, std::move(value)); }
    void put(const std::string& name, std::int64_t value) { put(name, std::to_string(value)); }
    // Each line of a text as a thing of its own: PREFIX/1, PREFIX/2, ...
    void put_lines(const std::string& prefix, const std::string& text);
    // Bytes as they are: hexadecimal, with their number and hash alone where there are more than 64.
    void put_bytes(const std::string& name, std::span<const unsigned char> bytes);
    // What a call has failed with. That it fails so is to be seen by the program, too.
    void put_errno(const std::string& name, int number);

    [[nodiscard]] const std::map<std::string, std::string>& all() const { return seen_; }
    [[nodiscard]] nlohmann::json json() const;

  private:
    std::map<std::string, std::string> seen_;
};

// A file of one look, or of an array of several.
[[nodiscard]] Result<std::vector<Facts>> read_looks(const std::string& path);

// 64 bits of FNV-1a, by words of eight bytes: it is to tell memory apart, nobody tries to deceive it.
[[nodiscard]] std::uint64_t hash_of(std::span<const unsigned char> bytes);

}  // namespace cairn::witness
