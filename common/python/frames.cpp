#include "common/python/frames.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "common/python/layout.h"
#include "common/python/line_table.h"

namespace cairn::python {
namespace {

constexpr std::size_t page_size = 4096, longest_text = 300, longest_table = 1 << 16;

// PyObject_HEAD and what is behind it in a bytes object and in a string: the same in all versions.
constexpr std::uint64_t size_at = 16, bytes_at = 32;

void append_utf8(std::string& text, std::uint32_t c) {
    const auto tail = [&](unsigned shift) { text += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
    if (c < 0x80) {
        text += static_cast<char>(c);
    } else if (c < 0x800) {
        text += static_cast<char>(0xC0 | c >> 6);
        tail(0);
    } else if (c < 0x10000) {
        text += static_cast<char>(0xE0 | c >> 12);
        tail(6);
        tail(0);
    } else {
        text += static_cast<char>(0xF0 | (c >> 18 & 7));
        tail(12);
        tail(6);
        tail(0);
    }
}

template <class T>
T part_of(std::span<const std::byte> bytes, std::uint64_t offset) {
    T part{};
    std::memcpy(&part, bytes.subspan(offset, sizeof part).data(), sizeof part);
    return part;
}

class Reader {
  public:
    Reader(const Layout& layout, Most most, const Read& read) : layout_(layout), most_(most), of_(read) {}

    std::vector<Thread> run(ProgramAddress runtime) {
        std::vector<Thread> threads;
        if (layout_.minor >= 13 && !ask_runtime(runtime)) return threads;
        // What isn't what it should be may be a circle, and ends with the reads.
        for (auto interpreter = pointer(runtime + layout_.interpreters); interpreter.known();
             interpreter = pointer(interpreter + layout_.next_interpreter))
            for (auto thread = pointer(interpreter + layout_.threads); thread.known();
                 thread = pointer(thread + layout_.next_thread))
                threads.push_back(thread_at(thread));
        return threads;
    }

  private:
    struct Code {
        std::string function{}, file{};
        int first_line = 0;
        std::vector<std::uint8_t> table{};
    };

    bool read(ProgramAddress at, std::span<std::byte> to) {
        const auto pages = 1 + to.size() / page_size;
        const bool may = at.known() && pages <= most_.reads;
        most_.reads -= std::min(pages, most_.reads);
        return may && of_(at, to);
    }
    template <class T>
    std::optional<T> value(ProgramAddress at) {
        T value{};
        if (!read(at, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
        return value;
    }
    ProgramAddress pointer(ProgramAddress at) { return ProgramAddress(value<std::uint64_t>(at).value_or(0)); }

    // _Py_DebugOffsets of pycore_runtime.h, 3.13.
    bool ask_runtime(ProgramAddress runtime) {
        struct Offsets {
            std::array<char, 8> cookie;
            std::uint64_t version, free_threaded;
            std::uint64_t runtime_size, finalizing, interpreters;
            std::uint64_t interpreter_size, id, next, threads;
        };
        const auto said = value<Offsets>(runtime);
        constexpr std::string_view cookie = "xdebugpy";
        if (!said || std::string_view(said->cookie.data(), said->cookie.size()) != cookie) return false;
        if (said->free_threaded != 0 || said->version >> 16 != (3U << 8 | layout_.minor)) return false;
        layout_.interpreters = said->interpreters;
        layout_.next_interpreter = said->next;
        layout_.threads = said->threads;
        return true;
    }

    Thread thread_at(ProgramAddress at) {
        Thread thread{.fs_base = value<std::uint64_t>(at + layout_.thread_id).value_or(0)};
        auto frame = pointer(at + layout_.current);
        if (layout_.has_cframe && frame.known()) frame = pointer(frame + layout_.cframe_current);
        while (frame.known() && !thread.cut) frame = add_frame(thread, frame);
        thread.cut = thread.cut || most_.reads == 0;
        return thread;
    }

    // Returns the caller's.
    ProgramAddress add_frame(Thread& thread, ProgramAddress at) {
        // As much as is needed of it by one call: all threads stand still meanwhile.
        std::array<std::byte, 112> bytes{};
        if (!read(at, bytes)) return {};
        const auto word = [&](std::uint64_t offset) { return part_of<std::uint64_t>(bytes, offset); };
        const ProgramAddress previous(word(layout_.previous));
        // Frames of C: where the interpreter's function begins (FRAME_OWNED_BY_CSTACK).
        constexpr std::byte of_c{3};
        if (layout_.minor >= 12 && bytes[layout_.owner] == of_c) {
            if (!thread.frames.empty()) thread.frames.back().entry = true;
            return previous;
        }
        thread.cut = thread.frames.size() == most_.functions;
        if (thread.cut) return {};
        const ProgramAddress code_at(word(layout_.code));
        const Code* code = code_of(code_at);
        if (code == nullptr) return previous;
        std::uint64_t instruction = word(layout_.instruction);
        if (layout_.minor < 11) {
            // f_lasti: bytes, or from 3.10 on instructions of two; -1: it hasn't begun.
            const auto last = std::max(static_cast<std::int32_t>(instruction), 0);
            instruction = static_cast<std::uint64_t>(last) * (layout_.minor == 10 ? 2 : 1);
        } else {
            const auto begin = (code_at + layout_.instructions).value();
            instruction -= std::min(instruction, begin);
        }
        thread.frames.push_back(
            {code->function, code->file, line_of(layout_.minor, code->table, code->first_line, instruction),
             layout_.minor < 11 || (layout_.minor == 11 && bytes[layout_.is_entry] != std::byte{0})});
        return previous;
    }

    // Null: it is none.
    const Code* code_of(ProgramAddress at) {
        if (const auto known = codes_.find(at); known != codes_.end())
            return known->second ? &*known->second : nullptr;
        auto& code = codes_[at];
        std::array<std::byte, 144> bytes{};
        if (!read(at, bytes)) return nullptr;
        const auto pointed = [&](std::uint64_t offset) {
            return ProgramAddress(part_of<std::uint64_t>(bytes, offset));
        };
        const auto &function = text_at(pointed(layout_.name)), &file = text_at(pointed(layout_.file));
        if (!function || !file) return nullptr;
        code = Code{*function, *file, part_of<std::int32_t>(bytes, layout_.first_line),
                    bytes_of(pointed(layout_.line_table))};
        return &*code;
    }

    // What lies at an offset behind `at`, most likely by one call, of which each takes about a microsecond:
    // of what is in the same page as `at` some more is read at once.
    class Ahead {
      public:
        Ahead(Reader& reader, ProgramAddress at) : reader_(reader), at_(at) {
            const auto size = std::min(bytes_.size(), page_size - at % page_size);
            if (reader_.read(at_, std::span(bytes_).first(size))) known_ = size;
        }
        [[nodiscard]] bool get(std::uint64_t offset, std::span<std::byte> to) {
            if (offset + to.size() > known_) return at_.known() && reader_.read(at_ + offset, to);
            std::ranges::copy(std::span(bytes_).subspan(offset, to.size()), to.begin());
            return true;
        }
        template <class T>
        [[nodiscard]] std::optional<T> value(std::uint64_t offset) {
            T value{};
            if (!get(offset, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
            return value;
        }

      private:
        Reader& reader_;
        ProgramAddress at_;
        std::array<std::byte, 256> bytes_{};
        std::size_t known_ = 0;
    };

    std::vector<std::uint8_t> bytes_of(ProgramAddress at) {
        Ahead object(*this, at);
        const auto size = object.value<std::uint64_t>(size_at).value_or(0);
        std::vector<std::uint8_t> bytes(size <= longest_table ? size : 0);
        if (!bytes.empty() && !object.get(bytes_at, std::as_writable_bytes(std::span(bytes)))) bytes.clear();
        return bytes;
    }

    // Nothing: it is no string. Files have many functions.
    const std::optional<std::string>& text_at(ProgramAddress at) {
        const auto [found, is_new] = texts_.try_emplace(at);
        if (is_new) found->second = read_text(at);
        return found->second;
    }

    // Of a string of 3.3 and later (PEP 393), whose characters have one, two or four bytes each.
    std::optional<std::string> read_text(ProgramAddress at) {
        struct Head {
            std::uint64_t length, hash;
            std::uint32_t state;
        };
        Ahead object(*this, at);
        const auto head = object.value<Head>(size_at);
        constexpr std::uint32_t compact = 0x20, ascii = 0x40;
        if (!head || (head->state & compact) == 0) return std::nullopt;
        const std::size_t each = head->state >> 2 & 7;
        if (each != 1 && each != 2 && each != 4) return std::nullopt;
        const std::size_t length = std::min<std::uint64_t>(head->length, longest_text);
        std::vector<std::uint8_t> bytes(length * each);
        const auto begin = (head->state & ascii) != 0 ? layout_.ascii : layout_.compact;
        if (!bytes.empty() && !object.get(begin, std::as_writable_bytes(std::span(bytes))))
            return std::nullopt;
        std::string text;
        for (std::size_t i = 0; i < bytes.size(); i += each) {
            std::uint32_t character = 0;
            std::memcpy(&character, &bytes[i], each);
            append_utf8(text, character);
        }
        return text;
    }

    Layout layout_;
    Most most_;  // what is left of it
    const Read& of_;
    std::map<ProgramAddress, std::optional<Code>> codes_;
    std::map<ProgramAddress, std::optional<std::string>> texts_;
};

}  // namespace

bool is_known(unsigned minor) {
    return layout_of(minor) != nullptr;
}

std::vector<Thread> threads_of(const Interpreter& interpreter, Most most, const Read& read) {
    const Layout* layout = layout_of(interpreter.minor);
    if (layout == nullptr || !interpreter.runtime.known()) return {};
    return Reader(*layout, most, read).run(interpreter.runtime);
}

}  // namespace cairn::python
