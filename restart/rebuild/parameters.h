// The restorer's parameters (restart/restorer/params.h), laid out in the tool as they will lie in the
// process.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/proc.h"
#include "restart/rebuild/rebuilding.h"
#include "restart/restorer/params.h"

namespace cairn::restart {

// Memory that will lie at `base` in the process: restorer::Params, and behind it what that points to.
class ParameterBlock {
  public:
    explicit ParameterBlock(ProgramAddress base) : base_(base) {}

    [[nodiscard]] restorer::Params& params() { return params_; }

    // The address that a thing will have in the process.
    ProgramAddress add(const void* data, std::size_t size) {
        behind_.resize(whole(behind_.size()));
        const auto at = base_ + this->size();
        const auto* begin = static_cast<const std::uint8_t*>(data);
        behind_.insert(behind_.end(), begin, begin + size);
        return at;
    }
    template <class T>
    ProgramAddress add(const std::vector<T>& items) {
        return items.empty() ? ProgramAddress() : add(items.data(), items.size() * sizeof(T));
    }
    ProgramAddress add(const std::string& text) { return add(text.c_str(), text.size() + 1); }

    // The same for a list that two fields of Params name, by its address and its length.
    template <class T, class Count>
    void add(const std::vector<T>& items, std::uint64_t restorer::Params::*at,
             Count restorer::Params::*count) {
        const auto address = add(items);
        params().*at = address.value();
        params().*count = static_cast<Count>(items.size());
    }

    [[nodiscard]] std::size_t size() const { return whole(sizeof params_) + behind_.size(); }
    [[nodiscard]] std::vector<std::uint8_t> bytes() const {
        std::vector<std::uint8_t> all(whole(sizeof params_));
        std::memcpy(all.data(), &params_, sizeof params_);
        all.insert(all.end(), behind_.begin(), behind_.end());
        return all;
    }

  private:
    static constexpr std::size_t whole(std::size_t size) { return (size + 15) / 16 * 16; }

    ProgramAddress base_;
    restorer::Params params_ = {};
    std::vector<std::uint8_t> behind_;
};

// The kernel's special mappings ([vdso], [vvar] and such), which are moved to where the image has them.
[[nodiscard]] bool is_special(const schema::Area& area);
[[nodiscard]] bool is_special(const proc::MapLine& line);

// The memory of a ring of io_uring, which only the kernel can put in its place (map_rings() of the restorer).
[[nodiscard]] bool is_of_a_ring(const schema::Area& area);

// Lays out everything. `lines`: what is mapped in the process now. Placement::staging, reader_spaces and
// attach are used, threads and filters are set. Errors: ExitCode::refused where this kernel maps something
// else than the image's.
[[nodiscard]] Result<> add_parameters(ParameterBlock& block, const Rebuilding& rebuilding,
                                      const Inherited& inherited, const std::vector<proc::MapLine>& lines,
                                      Placement& placement);

// Its parts, a file each: parameters_memory.cpp, parameters_threads.cpp, parameters_descriptors.cpp.
// `special`: where the kernel's own mappings go, before these come.
void add_areas(ParameterBlock& block, const Rebuilding& rebuilding, const Inherited& inherited,
               const Placement& placement, const std::vector<restorer::Move>& special);
// Where the threads are.
[[nodiscard]] ProgramAddress add_threads(ParameterBlock& block, const Rebuilding& rebuilding,
                                         const Inherited& inherited);
void add_signals(ParameterBlock& block, const Rebuilding& rebuilding);
[[nodiscard]] Result<> add_descriptors(ParameterBlock& block, const Rebuilding& rebuilding,
                                       const Inherited& inherited);

}  // namespace cairn::restart
