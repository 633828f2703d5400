"""Publications that metrics come from, cited by their records. A metric may also cite one in its own record."""

CHENG = (
    "B. Cheng, R. Girshick, P. Dollár, A. C. Berg, A. Kirillov: Boundary IoU: Improving Object-Centric Image "
    "Segmentation Evaluation. CVPR, 2021."
)
COELHO = (
    "L. P. Coelho, A. Shariff, R. F. Murphy: Nuclear segmentation in microscope cell images: a hand-segmented "
    "dataset and comparison of algorithms. ISBI, 2009."
)
COHEN = "J. Cohen: A coefficient of agreement for nominal scales. Educational and Psychological Measurement 20, 1960."
CONIC = (
    "S. Graham and others: CoNIC Challenge: Pushing the frontiers of nuclear detection, segmentation, "
    "classification and counting. Medical Image Analysis 92, 2024."
)
DICE = "L. R. Dice: Measures of the amount of ecologic association between species. Ecology 26, 1945."
EVERINGHAM = "M. Everingham and others: The PASCAL Visual Object Classes Challenge: a retrospective. IJCV 111, 2015."
FROC = (
    "B. Ehteshami Bejnordi and others: Diagnostic assessment of deep learning algorithms for detection of lymph "
    "node metastases in women with breast cancer (CAMELYON16). JAMA 318(22), 2017."
)
GEIFMAN = "Y. Geifman, R. El-Yaniv: Selective classification for deep neural networks. NeurIPS, 2017."
GLAS = (
    "K. Sirinukunwattana and others: Gland segmentation in colon histology images: The GlaS challenge contest. "
    "Medical Image Analysis 35, 2017."
)
GORODKIN = (
    "J. Gorodkin: Comparing two K-category assignments by a K-category correlation coefficient. Computational "
    "Biology and Chemistry 28, 2004."
)
HANLEY = (
    "J. A. Hanley, B. J. McNeil: The meaning and use of the area under a receiver operating characteristic (ROC) "
    "curve. Radiology 143, 1982."
)
HIRLING = "D. Hirling and others: Segmentation metric misinterpretations in bioimage analysis. Nature Methods 21, 2024."
HOVERNET = (
    "S. Graham and others: HoVer-Net: Simultaneous segmentation and classification of nuclei in multi-tissue "
    "histology images. Medical Image Analysis 58, 2019."
)
HUTTENLOCHER = (
    "D. P. Huttenlocher, G. A. Klanderman, W. J. Rucklidge: Comparing images using the Hausdorff distance. IEEE "
    "TPAMI 15(9), 1993."
)
JACCARD = "P. Jaccard: The distribution of the flora in the alpine zone. New Phytologist 11, 1912."
KIRILLOV = "A. Kirillov, K. He, R. Girshick, C. Rother, P. Dollár: Panoptic Segmentation. CVPR, 2019."
KUMAR = (
    "N. Kumar and others: A dataset and a technique for generalized nuclear segmentation for computational "
    "pathology. IEEE TMI 36(7), 2017."
)
LESSONS = (
    "A. Foucart, O. Debeir, C. Decaestecker: Evaluating participating methods in image analysis challenges: "
    "lessons from MoNuSAC 2020. Pattern Recognition 141, 2023."
)
RELOADED = (
    "L. Maier-Hein, A. Reinke and others: Metrics reloaded: recommendations for image analysis validation. Nature "
    "Methods 21, 2024."
)
LIN = "T.-Y. Lin and others: Microsoft COCO: Common Objects in Context. ECCV, 2014."
NIKOLOV = (
    "S. Nikolov and others: Clinically applicable segmentation of head and neck anatomy for radiotherapy: deep "
    "learning algorithm development and validation study. Journal of Medical Internet Research 23(7), 2021."
)
QUALITY = (
    "A. Foucart, O. Debeir, C. Decaestecker: Panoptic quality should be avoided as a metric for assessing cell "
    "nuclei segmentation and classification in digital pathology. Scientific Reports 13, 2023."
)
RIJSBERGEN = "C. J. van Rijsbergen: Information Retrieval. Butterworths, 1979."
SURFACE = (
    "T. Heimann and others: Comparison and evaluation of methods for liver segmentation from CT datasets. IEEE TMI "
    "28(8), 2009."
)
VU = (
    "Q. D. Vu and others: Methods for segmentation and classification of digital microscopy tissue images. "
    "Frontiers in Bioengineering and Biotechnology 7, 2019."
)
REINKE = (
    "A. Reinke and others: How to exploit weaknesses in biomedical challenge design and organization. MICCAI, 2018."
)
