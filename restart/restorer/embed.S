// The restorer blob, as data of the restart tool.
    .section .rodata
    .balign 4096
    .global cairn_restorer_begin
cairn_restorer_begin:
    .incbin CAIRN_RESTORER_BLOB
    .global cairn_restorer_end
cairn_restorer_end:
    .section .note.GNU-stack, "", @progbits
