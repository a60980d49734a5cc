/* module.text_features: what the printer has to know of how a text was printed. */
#ifndef GSPMD_TEXT_FEATURES_H
#define GSPMD_TEXT_FEATURES_H

enum {
    TEXT_OPERAND_LAYOUTS = 1 << 0, /* operand shapes carry layouts */
    TEXT_NO_OPERAND_INDEX = 1 << 1, /* operand lists of more than five without index comments */
    TEXT_PARTS_SEEN = 1 << 2        /* the text had a HloModule line */
};

#endif
