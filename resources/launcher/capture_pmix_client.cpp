#include "resources/launcher/capture_pmix_client.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "common/ptrace/thread.h"
#include "resources/launcher/capture_library_symbols.h"

namespace cairn::capture {
namespace {

using Word = std::uint64_t;

// Of pmix_ptl.h: lower tags and the highest one are the server's own messages.
constexpr std::uint32_t first_dynamic_tag = 100, any_tag = ~std::uint32_t{0};

// pmix_object.h: a class record is two pointers, two functions, two ints, two pointers, and the size of an
// object. pmix_ptl_types.h: a posted receive ends with its tag (padded), a function and a pointer.
constexpr Word size_in_class = 7 * sizeof(Word), tag_before_end = 3 * sizeof(Word);

constexpr std::size_t most_items = 1 << 16;

class PostedReceives {
  public:
    PostedReceives(pid_t pid, const LibrarySymbols& symbols) : pid_(pid), symbols_(symbols) {}

    Result<std::vector<std::uint32_t>> tags() {
        for (const char* name : {"pmix_ptl_base", "pmix_object_t_class", "pmix_list_t_class",
                                 "pmix_list_item_t_class", "pmix_ptl_posted_recv_t_class"})
            if (!symbols_.contains(name)) return fail("it doesn't export {}", name);
        object_ = word(at("pmix_object_t_class") + size_in_class);
        item_ = word(at("pmix_list_item_t_class") + size_in_class);
        posted_ = word(at("pmix_ptl_posted_recv_t_class") + size_in_class);
        const Word list = word(at("pmix_list_t_class") + size_in_class);
        if (object_ % sizeof(Word) != 0 || item_ < object_ + 2 * sizeof(Word) || item_ > 1024 ||
            list != object_ + item_ + sizeof(Word) || posted_ < item_ + tag_before_end || posted_ > 4096)
            return fail("its objects have sizes that were never seen");
        const ProgramAddress base = at("pmix_ptl_base"),
                             end = base + symbols_.find("pmix_ptl_base")->second.size;
        // The first list in there is that of the posted receives. What stands before the pointer to the class
        // is the version's affair.
        for (ProgramAddress where = base; where + list <= end; where += sizeof(Word)) {
            if (address(where) != at("pmix_list_t_class")) continue;
            for (Word before = 0; before < object_ && where - before >= base; before += sizeof(Word))
                if (auto found = walk(where - before, before)) return *found;
            break;
        }
        return fail("its list of posted receives isn't where it was expected");
    }

  private:
    [[nodiscard]] ProgramAddress at(std::string_view name) const {
        return symbols_.find(name)->second.address;
    }

    // 0 is never right where this is asked.
    [[nodiscard]] Word word(ProgramAddress at) const {
        return ptrace::read_object<Word>(pid_, at).value_or(0);
    }
    [[nodiscard]] ProgramAddress address(ProgramAddress at) const { return ProgramAddress(word(at)); }

    // A list is an object, a sentinel and its length; an item is an object, next and previous.
    std::optional<std::vector<std::uint32_t>> walk(ProgramAddress list, Word class_at) const {
        const ProgramAddress sentinel = list + object_;
        const Word length = word(sentinel + item_);
        // Constructed as an object only.
        if (address(sentinel + class_at) != at("pmix_object_t_class") || length > most_items)
            return std::nullopt;
        std::vector<std::uint32_t> tags;
        ProgramAddress previous = sentinel, item = address(sentinel + object_);
        for (Word i = 0; i < length; ++i) {
            if (address(item + class_at) != at("pmix_ptl_posted_recv_t_class") ||
                address(item + object_ + sizeof(Word)) != previous)
                return std::nullopt;
            const auto tag = ptrace::read_object<std::uint32_t>(pid_, item + posted_ - tag_before_end);
            if (!tag) return std::nullopt;
            if (*tag >= first_dynamic_tag && *tag != any_tag) tags.push_back(*tag);
            previous = item;
            item = address(item + object_);
        }
        if (item != sentinel) return std::nullopt;
        return tags;
    }

    pid_t pid_;
    const LibrarySymbols& symbols_;
    Word object_ = 0, item_ = 0, posted_ = 0;  // sizes
};

}  // namespace

Result<PmixClient> look_at_pmix_client(const Holder& holder) {
    static constexpr std::array<std::string_view, 5> wanted{"pmix_ptl_base", "pmix_object_t_class",
                                                            "pmix_list_t_class", "pmix_list_item_t_class",
                                                            "pmix_ptl_posted_recv_t_class"};
    static constexpr std::array<std::string_view, 1> state{"ompi_mpi_state"};
    constexpr std::int32_t init_completed = 2;  // OMPI_MPI_STATE_INIT_COMPLETED (Open MPI 3 to 5)

    auto symbols = TRY(library_symbols(holder.pid, "libpmix.so", wanted));
    if (symbols.empty()) return fail("it has no libpmix.so");
    auto tags = PostedReceives(holder.pid, symbols).tags();
    if (!tags) return std::unexpected(std::move(tags.error()).in("libpmix.so"));
    auto mpi = TRY(library_symbols(holder.pid, "libmpi.so", state));
    PmixClient client{std::move(*tags), false};
    if (const auto known = mpi.find(state.front()); known != mpi.end()) {
        auto now = TRY(ptrace::read_object<std::int32_t>(holder.pid, known->second.address));
        client.starting = now < init_completed;
    }
    return client;
}

}  // namespace cairn::capture
